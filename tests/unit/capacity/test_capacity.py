"""The capacity search, tested with simulated servers. tests/extended/test_capacity_study.py repeats it many times."""

import json
import math
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest
from command import invoke
from rows import fail, places
from simulated_capacity import GOALS, SERVERS, Server, fixed, offered, searched
from simulated_record import bare_record, result_of

from common.errors import BadInputError
from under_siege.capacity.estimate import Capacity, capacities_of, exit_code, search_steps
from under_siege.capacity.search import capacity_plan, check_goal, limits_in
from under_siege.capacity.step import last_response_s, typical_arrivals, usual_wait
from under_siege.capacity.step_metrics import StepMetrics
from under_siege.capacity.view import conclusion, named, view
from under_siege.judge.goal import NAMES, goal
from under_siege.judge.metrics import OF_STREAMS
from under_siege.load.request import Load, Stream
from under_siege.record.record import Failure, RateStep, SentRequest
from under_siege.record.requests import LOAD
from under_siege.record.result import Required, Result, SkippedServer, save
from under_siege.show.formats import rendered
from under_siege.suite.expected_response import Expectation
from under_siege.suite.server_files import strategies_suite

CAPACITIES = {"M/D/1": 17.67, "refuses": 12.85}  # for GOALS; the study in tests/extended compares them with theory


@cache
def found(name: str, seed: int = 0) -> tuple[Capacity, Result]:
    return searched(SERVERS[name], seed)[:2]


def of_steps(*steps: object) -> tuple[Capacity, Result]:
    result = result_of([])
    result.steps.extend(steps)
    return capacities_of(result)[0], result


def step_of(rate: float = 10.0, time_s: float = 10.0, **changes: object):
    return offered(SERVERS["M/D/1"], rate, time_s, 1, 1, **changes)


def shown(result: Result, output_format: str) -> str:
    return rendered(view(result), output_format)


def test_arrival_times_are_equal_for_the_same_seed_and_differ_between_steps() -> None:
    first, again, other = (typical_arrivals(300, seed) for seed in ([1, 1], [1, 1], [1, 2]))
    assert (first == again).all()
    assert not np.allclose(first, other)
    for one in (first, other):
        assert (np.diff(one) >= 0).all()
        assert 0 <= one[0] < one[-1] < 300


def test_typical_arrivals_approximate_an_endless_poisson_process_better_than_random_arrivals() -> None:
    def off(arrivals: np.ndarray) -> float:
        work = 0.8 * np.arange(len(arrivals)) - arrivals
        waits = work - np.minimum.accumulate(work) + 0.8
        return math.log(np.percentile(waits, 99) / (0.8 + usual_wait(0.8, 99)))

    typical = [off(typical_arrivals(300, [7, number])) for number in range(20)]
    luck = np.random.default_rng(7)
    drawn = [off(np.sort(luck.random(300)) * 300) for _ in range(20)]
    assert np.std(typical) < 0.6 * np.std(drawn)
    assert abs(np.mean(typical)) < abs(np.mean(drawn))  # both are biased, because they begin with an empty queue


@pytest.mark.parametrize(("name", "seed"), [("M/D/1", 0), ("refuses", 5)])
def test_the_capacity_of_a_simulated_queue_is_found_within_a_minute(name: str, seed: int) -> None:
    one, result = found(name, seed)
    assert one.per_s == pytest.approx(CAPACITIES[name], rel=0.2)
    assert one.lower_per_s <= CAPACITIES[name] <= one.upper_per_s
    assert (one.verdict, one.breaks.text, exit_code(result)) == ("ok", "p99 < 1s", 0)
    assert sum(step.record.case_s for step in result.steps) <= 60
    missed = [step.per_s for step in one.steps if step.missed]
    assert one.upper_per_s >= max(step.per_s for step in one.steps if not step.missed)
    assert len(missed) < 2 or one.lower_per_s <= missed[1]


def test_a_closed_loop_finds_the_saturation_rate_and_no_step_offers_much_more() -> None:
    one, result = found("M/D/1")
    siege, *steps = result.steps
    assert siege.closed_users == 25
    assert one.saturation_per_s == pytest.approx(20, rel=0.03)
    assert all(0.3 * 20 < step.arrivals_per_s < 1.1 * 20 for step in steps)
    around = sum(step.record.case_s for step in steps if abs(step.arrivals_per_s / one.per_s - 1) < 0.1)
    assert around > 20


def test_a_short_search_offers_at_least_one_rate() -> None:
    assert searched(SERVERS["M/D/1"], budget_s=5.0)[0].steps


def test_more_users_besiege_a_server_that_25_users_do_not_overload() -> None:
    one, result, _ = searched(Server(100, fixed(0.1)))
    assert [step.closed_users for step in result.steps if step.closed_users] == [25, 100, 400]
    assert one.saturation_per_s == pytest.approx(1000, rel=0.1)


def with_step(rate: float, refused: int = 0, again: int = 1) -> Capacity:
    """Add steps at a rate whose requests are answered as at 10/s, or refused, to steps around the true 17.7/s."""
    steps = [
        offered(SERVERS["M/D/1"], per_s, 15.0, number, 1) for number, per_s in enumerate((12, 14, 16, 19.5, 22), 1)
    ]
    for _ in range(again):
        step = step_of(10.0, 3.0)
        step.arrivals_per_s = rate
        for number in range(refused):
            fail(step.record.requests, number, "refused", "status 503", sender=LOAD)
        steps.append(step)
    return of_steps(*steps)[0]


def test_the_bounds_change_if_they_contradict_a_step_that_met_the_goals_or_two_that_missed_them() -> None:
    assert with_step(10.0).upper_per_s < 25
    assert with_step(25.0).upper_per_s >= 25
    assert with_step(10.0, refused=5).lower_per_s > 10
    assert with_step(10.0, refused=5, again=2).lower_per_s <= 10


def test_refused_limited_wrong_and_late_responses_are_told_apart(golden) -> None:
    step = step_of()
    requests = step.record.requests
    for number, outcome in enumerate(("refused", *["limited"] * 3, "wrong", "wrong", "lost")):
        fail(requests, number, outcome, "", sender=LOAD)
    requests.ended_s[places(requests)[7]] += 5.0
    counts = {name: round(share * 100) for name, share in StepMetrics(step).shares.items()}
    assert counts == {"refused": 1, "limited": 3, "wrong": 2, "lost": 1, "late": 1}
    golden(shown(of_steps(step)[1], "table"))


def refusing(*, is_idle: bool = True, keep_alive: bool = True, outcome: str = "refused") -> tuple[Capacity, Result]:
    """Return the capacity of a server that failed a third of the requests at the highest of three rates."""
    steps = [step_of(rate) for rate in (8.0, 10.0, 12.0)]
    for number in range(40):
        fail(steps[-1].record.requests, number, outcome, "status 503", sender=LOAD)
    for step in steps:
        step.record.keep_alive = keep_alive
        cpu_s = step.record.samples.cpu_s
        cpu_s[:] = [(0.01 if is_idle else 0.25) * index for index in range(len(cpu_s))]
    return of_steps(*steps)


def test_a_server_that_refuses_requests_while_it_is_idle_has_no_rate_but_a_limit() -> None:
    one, result = refusing()
    assert (one.per_s, one.lower_per_s, one.upper_per_s, one.verdict) == (None, None, None, "undecided")
    (case,) = json.loads(shown(result, "json"))["cases"]
    assert [reason["code"] for reason in case["reasons"]] == ["refused_while_idle"]
    sentence = next(iter(conclusion(named([one]))))
    assert "idle connections" in sentence
    assert "/s while it used 4 % of a CPU" in sentence


def test_a_limit_on_requests_determines_the_rate_if_connections_are_not_kept() -> None:
    one, _ = refusing(keep_alive=False)
    assert one.lower_per_s
    assert any("--limit-concurrency determines its highest rate" in text for text in conclusion(named([one])))


@pytest.mark.parametrize("changes", [{"is_idle": False}, {"outcome": "wrong"}])
def test_a_busy_server_and_wrong_responses_have_another_cause(changes: dict) -> None:
    one, _ = refusing(**changes)
    assert one.lower_per_s
    assert not any("--limit-concurrency" in text for text in conclusion(named([one])))


def test_a_goal_whose_metric_is_unknown_is_missed() -> None:
    step = step_of(goals=("cpu < 1s",))
    for number in range(len(places(step.record.requests, with_open=True))):
        fail(step.record.requests, number, "lost", "", sender=LOAD)
    assert [goal.text for goal in StepMetrics(step).missed] == ["cpu < 1s"]


def test_a_server_with_slow_pings_at_every_rate_has_no_capacity(golden) -> None:
    one, result, _ = searched(SERVERS["M/D/1"], ping=lambda rate: 0.08 + rate / 1000)
    assert (one.lower_per_s, one.is_none) == (None, True)
    assert one.upper_per_s == search_steps(result, one.case).least_per_s
    golden(*conclusion(named([one])))
    assert json.loads(shown(result, "json"))["cases"][0]["capacity_per_s"]["holds"] is None


def test_a_server_that_meets_the_goals_at_every_rate_has_no_upper_bound(golden) -> None:
    """Pings are fast at every rate, and no goal needs responses."""
    one, result, _ = searched(SERVERS["M/D/1"], goals=("ping p99 < 50ms",))
    assert one.lower_per_s > 20
    golden(*conclusion(named([one])))
    assert json.loads(shown(result, "json"))["cases"][0]["capacity_per_s"]["fails"] is None


def test_steps_limited_by_the_load_generator_are_ignored_and_reported(golden) -> None:
    step = step_of(40.0, 5.0)
    requests = step.record.requests
    for index in places(requests, with_open=True):
        requests.sent_s[index] += 0.2
    one, result = of_steps(step, step_of())
    assert [each.per_s for each in one.steps] == [10.0]
    assert search_steps(result, one.case).most_per_s < 40
    golden(*conclusion(named([one])))


@pytest.mark.parametrize("late", [1, 2, 3])
def test_a_step_meets_a_goal_if_and_only_if_the_percentile_that_is_shown_does(late: int) -> None:
    """Let 200 requests take 0.5 s, except a few that take 2 s: the p99 of two of them is between both."""
    step = step_of(20.0, 10.0)
    for number, index in enumerate(places(step.record.requests)[:200]):
        requests = step.record.requests
        requests.outcome[index] = "correct"
        requests.ended_s[index] = requests.due_s[index] + (2.0 if number < late else 0.5)
    metrics = StepMetrics(step)
    (goal,) = [each for each in metrics.goals if each.figure == "response_p99_s"]
    assert len(metrics.rows) == 200
    assert (goal in metrics.missed) is not goal.holds(metrics.value(goal.figure))


@pytest.mark.parametrize(("text", "least_s"), [("availability >= 99%", 6.0), ("cpu < 1s", 6.0), ("p99 < 1s", 1.0)])
def test_a_step_waits_for_its_last_responses_if_no_goal_limits_them(text: str, least_s: float) -> None:
    assert least_s < last_response_s([goal(text)], Expectation(b"", 6.0, 0.0)) < least_s + 2


def test_refusals_have_infinite_latency_and_unanswered_requests_are_censored() -> None:
    one = StepMetrics(offered(SERVERS["refuses"], 40.0, 10.0, 1, 1))
    assert one.value("response_p99_s") == math.inf
    assert one.good_per_s <= 21
    assert 4.0 <= StepMetrics(step_of(40.0)).value("response_p99_s") < 6.2


def test_the_capacity_is_reported_as_a_share_of_the_ceiling() -> None:
    _, result = found("M/D/1")
    result.records.append(bare_record(users=25))  # 20 requests per second
    (one,) = capacities_of(result)
    of_ceiling = one.of_ceiling
    result.records.clear()
    assert of_ceiling == pytest.approx(one.per_s / 20, rel=0.01)


def test_a_failed_capacity_search_is_reported_with_its_reason(golden, undrawn: None) -> None:
    step = step_of()
    step.record.failure = Failure("died", "it <b>died</b>")
    _, result = of_steps(step)
    result.left_out.append(SkippedServer("7_some", "In interpreters", "3.11.7", "needs Python 3.14"))
    assert exit_code(result) == 1
    assert not any("<b>died" in shown(result, output_format) for output_format in ("markdown", "html", "csv"))
    golden(shown(result, "table"))


def test_every_output_format_shows_a_capacity(golden, undrawn: None) -> None:
    one, result = found("M/D/1")
    golden(shown(result, "table"))
    assert f"{one.lower_per_s:.1f}/s" in shown(result, "markdown")
    assert shown(result, "csv").count("\n") == len(one.steps)
    (case,) = json.loads(shown(result, "json"))["cases"]
    assert case["capacity_per_s"] == {"holds": one.lower_per_s, "fails": one.upper_per_s}
    assert case["goals"] == list(GOALS)
    assert "3_some" in shown(result, "html")


WRONG_GOALS = ["p99", "p98 < 1s", "p99 < 1kg", "p99 < 0.9 of base", "p99 > 1s", "availability < 99%"]
WRONG_GOALS += ["throttled < 10%", "memory used < 80%", "GET /list p99 < 1s", "streams at once >= 5"]
TOO_STRICT = ["p99 < 0s", "availability >= 100%"]


@pytest.mark.parametrize("name", NAMES)
def test_every_metric_of_a_requirement_can_be_a_goal_except_those_that_follow_from_the_rate(name: str) -> None:
    metric = NAMES[name]
    unit = next(unit for unit in metric.unit.factors if unit or len(metric.unit.factors) == 1)
    text = f"{name} {'>=' if metric.more_is_better else '<'} 1{unit}"
    suite = replace(strategies_suite(["2"]), load=Load(stream=Stream("sse") if metric.key in OF_STREAMS else None))
    if name == "streams at once":
        with pytest.raises(BadInputError, match="streams >= 5/s"):
            check_goal(goal(text), suite)
    else:
        check_goal(goal(text), suite, ["cpus", "memory"])


def with_mix(step: RateStep, count: int) -> RateStep:
    """Let the first requests of a step be `GET /list`, and all others `POST /report`."""
    step.record.mix = [SentRequest("POST", "/report"), SentRequest("GET", "/list")]
    for number, index in enumerate(places(step.record.requests, with_open=True)):
        step.record.requests.request[index] = int(number < count)
    return step


def test_a_goal_for_one_request_of_a_mix_counts_only_its_responses() -> None:
    step = with_mix(step_of(goals=("GET /list p99 < 1s", "POST /report availability >= 99%")), 20)
    limits = StepMetrics(step)
    assert limits.missed == []
    for number in range(20, 40):
        fail(step.record.requests, number, "lost", "", sender=LOAD)
    assert [each.text for each in StepMetrics(step).missed] == ["POST /report availability >= 99%"]
    fail(step.record.requests, 0, "lost", "", sender=LOAD)
    assert {each.request for each in StepMetrics(step).missed} == {"GET /list", "POST /report"}


def test_a_step_that_sent_no_request_of_a_goal_does_not_miss_it() -> None:
    assert StepMetrics(with_mix(step_of(goals=("GET /list p99 < 1ms",)), 0)).missed == []


@pytest.mark.parametrize(
    ("text", "outcome", "code"),
    [
        ("rate >= 10/s", "met", 0),
        ("rate >= 17.5/s", "undecided", 3),
        ("rate >= 30/s", "missed", 1),
        ("of ceiling >= 50%", "met", 0),
        ("of ceiling >= 1.5", "missed", 1),
    ],
)
def test_a_goal_for_the_rate_is_judged_by_the_interval_of_the_capacity(text: str, outcome: str, code: int) -> None:
    _, result = found("M/D/1")
    measured = replace_requirements(result, [Required(text)])
    measured.records.append(bare_record(users=25))  # a ceiling of 20 requests per second
    assert exit_code(measured) == view(measured).exit_code == code
    (judged,) = json.loads(shown(measured, "json"))["requirements"]
    assert (judged["requirement"], judged["outcome"], judged["server"]) == (text, outcome, "3_some")
    assert f"Requirements: 1 {outcome}." in shown(measured, "table")


def replace_requirements(result: Result, requirements: list[Required]) -> Result:
    return msgspec.structs.replace(result, requirements=requirements, records=[])


def test_goals_for_the_rate_become_requirements_and_do_not_limit_the_search() -> None:
    goals = ("p99 < 1s", "rate >= 30/s")
    plan = capacity_plan(strategies_suite(["2"]), goals, {"python": [sys.executable]}, seed=1)
    assert ([each.text for each in plan.suite.required], limits_in(goals)) == (["rate >= 30/s"], ["p99 < 1s"])


def test_a_goal_that_the_capacity_search_cannot_use_causes_a_one_line_error(golden, tmp_path: Path) -> None:
    commands = [("3", "--goal", wanted) for wanted in (*WRONG_GOALS, *TOO_STRICT)]
    commands.append(("http://127.0.0.1:9/", "--goal", "ping p99 < 50ms"))  # no health check is set
    ended = [invoke("capacity", *words, folder=tmp_path) for words in commands]
    assert {(one.returncode, one.stderr.count("\n")) for one in ended} == {(2, 1)}
    golden(*(one.stderr.strip() for one in ended))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"arrivals_per_s": 0}, "arrivals_per_s"),
        ({"seen_until_s": 1e300}, "seen_until_s"),
        ({"goals": ["p99 <"]}, "p99 <"),
    ],
    ids=str,
)
def test_steps_with_impossible_values_are_rejected(change: dict, field: str, tmp_path: Path) -> None:
    save(of_steps(step_of(time_s=2.0))[1], tmp_path / "c.json")
    told = json.loads((tmp_path / "c.json").read_text())
    told["steps"][0] |= change
    (tmp_path / "c.json").write_text(json.dumps(told))
    ran = invoke("report", "c.json", folder=tmp_path)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert field in ran.stderr


def test_an_interrupted_search_does_not_report_that_no_rate_meets_the_goals(golden) -> None:
    one, result = of_steps(step_of(30.0, 5.0))
    assert (one.lower_per_s, one.upper_per_s, one.is_none) == (None, 30.0, False)
    assert exit_code(result) == 3
    golden(*conclusion(named([one])))
