"""The capacity search, tested with simulated servers and once with a real server."""

import json
import math
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import thorough
from simulated_capacity import GOALS, SERVERS, Server, capacity_of, fixed, offered, searched
from simulated_cpus import Machine
from simulated_record import bare_record, result_of

from common.errors import BadInputError
from under_siege.capacity.estimate import Capacity, capacities_of, exit_code
from under_siege.capacity.step import Generator, typical_arrivals, usual_wait
from under_siege.capacity.step_metrics import StepMetrics
from under_siege.capacity.view import conclusion, named, view
from under_siege.cli_options import one_line_read_errors
from under_siege.record.record import Failure
from under_siege.record.result import Result, SkippedServer, load, save
from under_siege.show.formats import rendered

RunCli = Callable[..., subprocess.CompletedProcess[str]]


LIMIT_S = 1.0  # of GOALS


@cache
def found(name: str, seed: int, *, noisy: bool = False) -> tuple[Capacity, Result, Machine]:
    return searched(SERVERS[name], seed, noisy=noisy)


def shown(result: Result, output_format: str) -> str:
    return rendered(view(result), output_format)


def covers(one: Capacity, per_s: float) -> bool:
    return (one.lower_per_s or 0.0) <= per_s <= (one.upper_per_s or math.inf)


def test_output_lines_of_the_load_generator_are_parsed_in_any_order() -> None:
    process = SimpleNamespace(pid=os.getpid(), ended=lambda: False)
    one = Generator(process, None)
    one._due_s = [0.1, 0.2, 0.3]
    for line in ("2,0.301,0.4,", "0,0.101,0.5,unanswered", "1,0.2", "1,0.2,0.3,Lost", "x"):
        one.take(line, 0.0)
    assert not one.ready
    one.take("ready", 0.0)
    assert one.ready
    told = one.arrivals
    assert one.done == {0, 2}
    assert (told.due_s, told.sent_s, told.ended_s) == ([0.3, 0.1], [0.301, 0.101], [0.4, 0.5])
    assert told.outcome == ["", "unanswered"]


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


def off(one: Capacity, per_s: float) -> float:
    assert one.per_s is not None
    return abs(one.per_s / per_s - 1)


@pytest.mark.parametrize("name", thorough(["M/D/1", "M/D/2", "M/M/2"], quick=("M/D/1",)))
def test_the_capacity_of_a_simulated_queue_is_found_within_a_minute(name: str) -> None:
    inside = []
    for seed in range(5):
        one, result, _ = found(name, seed)
        assert off(one, capacity_of(name, LIMIT_S)) < 0.2
        assert one.verdict == "ok"
        assert sum(step.record.case_s for step in result.steps) <= 60
        assert one.breaks.text == "p99 < 1s"
        assert exit_code(result) == 0
        inside.append(covers(one, capacity_of(name, LIMIT_S)))
    assert sum(inside) >= 4


def test_the_capacity_of_a_cpu_bound_server_is_found_on_a_noisy_machine() -> None:
    inside = []
    for seed in range(5):
        one, _, machine = found("M/D/1 cpu", seed, noisy=True)
        inside.append(covers(one, machine.mean_speed(cpus=1) * capacity_of("M/D/1 cpu", LIMIT_S)))
    assert sum(inside) >= 4


def test_a_closed_loop_finds_the_saturation_rate_and_no_step_offers_much_more() -> None:
    one, result, _ = found("M/D/1", 0)
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


def test_the_interval_contradicts_no_step() -> None:
    for name in ("M/D/1", "M/M/2", "refuses"):
        for seed in range(4):
            one, _, _ = found(name, seed)
            missed = [step.per_s for step in one.steps if step.missed]
            met = [step.per_s for step in one.steps if not step.missed]
            assert (one.upper_per_s or math.inf) >= max(met)
            assert len(missed) < 2 or one.lower_per_s <= missed[1]


def with_step(rate: float, refused: int = 0, again: int = 1) -> Capacity:
    """Add steps at a rate whose requests are answered as at 10/s, or refused, to steps around the true 17.7/s."""
    result = result_of([])
    for number, step_rate in enumerate((12.0, 14.0, 16.0, 19.5, 22.0), start=1):
        result.steps.append(offered(SERVERS["M/D/1"], step_rate, 15.0, number, 1))
    for number in range(again):
        step = offered(SERVERS["M/D/1"], 10.0, 3.0, 10 + number, 1)
        step.arrivals_per_s = rate
        step.arrivals.outcome[:refused] = ["refused"] * refused
        result.steps.append(step)
    return capacities_of(result)[0]


def test_the_bounds_change_if_they_contradict_a_step_that_met_the_goals_or_two_that_missed_them() -> None:
    assert with_step(10.0).upper_per_s < 25
    assert with_step(25.0).upper_per_s >= 25
    assert with_step(10.0, refused=5).lower_per_s > 10
    assert with_step(10.0, refused=5, again=2).lower_per_s <= 10


def test_refused_requests_miss_the_latency_goal() -> None:
    one, result, _ = found("refuses", 2)
    assert off(one, capacity_of("refuses", LIMIT_S)) < 0.2
    assert covers(one, capacity_of("refuses", LIMIT_S))
    assert "refused (503)" in shown(result, "table")


def test_refused_limited_wrong_and_late_responses_are_told_apart() -> None:
    step = offered(SERVERS["M/D/1"], 10.0, 10.0, 1, 1)
    step.arrivals.outcome[:8] = ["refused", "limited", "limited", "limited", "wrong", "wrong", "lost", ""]
    step.arrivals.ended_s[7] += 5.0
    result = result_of([])
    result.steps.append(step)
    counts = {name: round(share * 100) for name, share in StepMetrics(step).shares.items()}
    assert counts == {"refused": 1, "limited": 3, "wrong": 2, "lost": 1, "late": 1}
    table = " ".join(shown(result, "table").split())
    for words in ("rejected by a rate limit (429)", "refused (503)", "answered wrongly", "late"):
        assert words in table


def test_a_goal_whose_metric_is_unknown_is_missed() -> None:
    step = offered(SERVERS["M/D/1"], 10.0, 10.0, 1, 1, goals=("cpu < 1s",))
    step.arrivals.outcome[:] = ["lost"] * len(step.arrivals.outcome)
    assert [goal.text for goal in StepMetrics(step).missed] == ["cpu < 1s"]


def test_a_server_with_slow_pings_at_every_rate_has_no_capacity() -> None:
    one, result, _ = searched(SERVERS["M/D/1"], ping=lambda rate: 0.08 + rate / 1000)
    assert one.lower_per_s is None
    assert one.is_none
    assert one.upper_per_s == one.least_per_s
    assert any(
        "no rate meets the goals; even at" in sentence and "ping p99: 81 ms" in sentence
        for sentence in conclusion(named([one]))
    )
    assert json.loads(shown(result, "json"))["cases"][0]["capacity_per_s"]["holds"] is None


def test_a_server_that_meets_the_goals_at_every_rate_has_no_upper_bound() -> None:
    """Pings are fast at every rate, and no goal needs responses."""
    one, result, _ = searched(SERVERS["M/D/1"], goals=("ping p99 < 50ms",))
    assert one.lower_per_s > 20
    assert one.upper_per_s is None
    assert "meets every goal at every offered rate" in " ".join(conclusion(named([one])))
    assert json.loads(shown(result, "json"))["cases"][0]["capacity_per_s"]["fails"] is None


def test_steps_limited_by_the_load_generator_are_ignored_and_reported() -> None:
    step = offered(SERVERS["M/D/1"], 40.0, 5.0, 1, 1)
    step.arrivals.sent_s[:] = [at + 0.2 for at in step.arrivals.sent_s]
    result = result_of([])
    result.steps += [step, offered(SERVERS["M/D/1"], 10.0, 10.0, 2, 1)]
    (one,) = capacities_of(result)
    assert [each.per_s for each in one.steps] == [10.0]
    assert one.most_per_s < 40
    remark = "at 40.0/s, the load generator was the limit and sent requests 200 ms late"
    assert remark in " ".join(conclusion(named([one])))


def test_refusals_have_infinite_latency_and_unanswered_requests_are_censored() -> None:
    one = StepMetrics(offered(SERVERS["refuses"], 40.0, 10.0, 1, 1))
    assert one.percentile_s("response", 99) == math.inf
    assert one.good_per_s <= 21
    queue = StepMetrics(offered(SERVERS["M/D/1"], 40.0, 10.0, 1, 1))
    assert 4.0 <= queue.percentile_s("response", 99) < 6.2


def test_the_capacity_is_reported_as_a_share_of_the_ceiling() -> None:
    _, result, _ = found("M/D/1", 0)
    result.records.append(bare_record(users=25))  # 20 requests per second
    (one,) = capacities_of(result)
    of_ceiling = one.of_ceiling
    result.records.clear()
    assert of_ceiling == pytest.approx(one.per_s / 20, rel=0.01)


def test_a_failed_capacity_search_is_reported_with_its_reason() -> None:
    step = offered(SERVERS["M/D/1"], 10.0, 5.0, 1, 1)
    step.record.failure = Failure("died", "it <b>died</b>")
    result = result_of([])
    result.steps.append(step)
    result.left_out.append(SkippedServer("7_some", "In interpreters", "3.11.7", "needs Python 3.14"))
    assert exit_code(result) == 1
    for dress in ("table", "markdown", "html", "csv", "json"):
        assert "<b>died" not in shown(result, dress) or dress in ("table", "json")
    assert "search failed: it <b>died</b>" in shown(result, "table")


def test_every_output_format_shows_a_capacity() -> None:
    one, result, _ = found("M/D/1", 0)
    table = shown(result, "table")
    for word in ("sustained", "goodput", "ping p99", f"{one.per_s:.1f}/s", "95 % CI"):
        assert word in table
    assert f"{one.lower_per_s:.1f}/s" in shown(result, "markdown")
    assert shown(result, "csv").count("\n") == len(one.steps)
    (case,) = json.loads(shown(result, "json"))["cases"]
    assert case["capacity_per_s"] == {"holds": one.lower_per_s, "fails": one.upper_per_s}
    assert case["goals"] == list(GOALS)
    assert "requests offered per second" in shown(result, "html")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("p99", "is not a goal: expected METRIC"),
        ("p98 < 1s", "for example 'p99 < 1s'"),
        ("p99 < 1kg", "unknown unit 'kg'"),
        ("rate >= 30/s", "not supported in a capacity search"),
        ("p99 < 0.9 of base", "not supported in a capacity search"),
        ("p99 > 1s", "use 'p99 < 1s'"),
        ("availability < 99%", "use 'availability >= 99%'"),
        ("p99 < 0s", "is too strict for a search"),
        ("availability >= 100%", "is too strict for a search"),
    ],
)
def test_a_goal_that_the_capacity_search_cannot_use_causes_a_one_line_error(
    wanted: str, said: str, run_cli: RunCli
) -> None:
    ran = run_cli("capacity", "3", "--goal", wanted)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert said in ran.stderr


def test_a_ping_goal_requires_a_health_check(run_cli: RunCli) -> None:
    ran = run_cli("capacity", "http://127.0.0.1:9/", "--goal", "ping p99 < 50ms")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "no health check is set" in ran.stderr


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"arrivals_per_s": 0}, ".arrivals_per_s`"),
        ({"seen_until_s": 1e300}, ".seen_until_s`"),
        ({"arrivals": {"due_s": [0.1], "sent_s": [], "ended_s": [], "outcome": [""]}}, "columns of different lengths"),
        ({"goals": ["p99 <"]}, "is not a goal"),
    ],
    ids=str,
)
def test_steps_with_impossible_values_are_rejected(change: dict, why: str, tmp_path: Path, run_cli: RunCli) -> None:
    result = result_of([])
    result.steps.append(offered(SERVERS["M/D/1"], 10.0, 5.0, 1, 1))
    save(result, tmp_path / "c.json")
    told = json.loads((tmp_path / "c.json").read_text())
    told["steps"][0] |= change
    (tmp_path / "c.json").write_text(json.dumps(told))
    ran = run_cli("report", "c.json")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert why in ran.stderr


def test_an_interrupted_search_does_not_report_that_no_rate_meets_the_goals() -> None:
    result = result_of([])
    step = offered(SERVERS["M/D/1"], 30.0, 5.0, 1, 1)
    result.steps.append(step)
    (one,) = capacities_of(result)
    assert (one.lower_per_s, one.upper_per_s, one.is_none) == (None, 30.0, False)
    assert exit_code(result) == 3
    assert "misses a goal at 30.0/s, and no lower rate was offered" in " ".join(conclusion(named([one])))


def test_run_rejects_a_suite_with_open_loop_load_and_suggests_capacity(tmp_path: Path, run_cli: RunCli) -> None:
    suite = 'title = "One"\n[load]\ntool = "open"\n[servers.one]\ncommand = "python x.py --port {port}"\n'
    (tmp_path / "open.toml").write_text(suite)
    ran = run_cli("run", "open.toml")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "works only with bench.py capacity; use that command or another tool" in ran.stderr
    assert run_cli("capacity", "open.toml", "--goal", "rate > 1/s").returncode == 2


def test_a_capacity_result_with_edited_steps_is_shown_or_causes_a_one_line_error(tmp_path: Path) -> None:
    result = result_of([])
    result.steps.append(offered(SERVERS["M/D/1"], 10.0, 2.0, 1, 1))
    save(result, tmp_path / "c.json")
    told = (tmp_path / "c.json").read_text()
    for holder in ("step", "record", "arrivals"):
        for name in {"step": json.loads(told)["steps"][0]}.get(holder) or json.loads(told)["steps"][0][holder]:
            for value in (0, 1e6, [], [0.0], "x"):
                changed = json.loads(told)
                step = changed["steps"][0]
                (step if holder == "step" else step[holder])[name] = value
                assert shown_or_refused(tmp_path, changed), (holder, name, value)


def shown_or_refused(folder: Path, told: object) -> bool:
    """Return whether the result is shown or rejected with a one-line error; other exceptions fail the test."""
    (folder / "changed.json").write_text(json.dumps(told))
    try:
        with one_line_read_errors(folder / "changed.json"):
            result = load(folder / "changed.json")
            shown(result, "table")
            shown(result, "json")
    except BadInputError as error:
        return "\n" not in str(error)
    return True
