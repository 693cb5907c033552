"""The capacity search, tested with simulated servers and once with a real server."""

import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from copy import copy
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import TESTS, thorough
from rich.console import Console
from simulated_capacity import GOALS, SERVERS, Server, fixed, offered, searched
from simulated_cpus import Machine
from simulated_record import bare_record, result_of

from common.errors import BadInputError
from under_siege.capacity.capacity_estimate import Capacity, capacities_of, exit_code
from under_siege.capacity.capacity_table import conclusion
from under_siege.capacity.knee import StepRequests, queue_from, replayed, service_times
from under_siege.capacity.rate_step_run import Generator, Offer, typical_arrivals, usual_wait
from under_siege.capacity.step_metrics import StepMetrics
from under_siege.cli_options import one_line_read_errors
from under_siege.model.record import Failure, Result, SkippedServer, load, save
from under_siege.model.requirement import goal
from under_siege.result_output import Report

RunCli = Callable[..., subprocess.CompletedProcess[str]]


# Requests/s at which p99 reaches 1 s, computed by scripts/simulate_capacity.py. The formula for M/D/1 is from Tijms
# (2003), and the formula for M/M/2 is Erlang's.
TRUTH = {"M/D/1": 17.7, "M/D/2": 17.6, "M/M/2": 35.2, "M/D/1 cpu": 17.7, "refuses": 12.8, "stalls": 27.6}
TRUTH_NOISY = {**TRUTH, "M/D/1 cpu": 16.1}


@cache
def found(name: str, seed: int, *, noisy: bool = False) -> tuple[Capacity, Result, Machine]:
    return searched(SERVERS[name], seed, noisy=noisy)


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


def seen_in(name: str, rate: float) -> StepRequests:
    return StepMetrics(offered(SERVERS[name], rate, 10.0, 1, 1)).requests(None, 0.0)


@pytest.mark.parametrize(("name", "workers", "service_s"), [("M/D/1", 1, 0.05), ("M/D/2", 2, 0.1)])
@pytest.mark.parametrize("rate", [5.0, 17.0, 40.0])
def test_service_times_are_computed_from_latencies(name: str, workers: int, service_s: float, rate: float) -> None:
    _, served = service_times(seen_in(name, rate), workers)
    assert len(served) > 40
    assert served == pytest.approx(service_s, rel=1e-6)


@pytest.mark.parametrize("workers", [1, 2])
def test_replaying_the_service_times_reproduces_the_latencies(workers: int) -> None:
    seen = seen_in(f"M/D/{workers}", 17.0)
    _, served = service_times(seen, workers)
    waits = replayed(seen.due_s[None], served[None], workers)
    assert waits[0] == pytest.approx(seen.wait_s, rel=1e-6)


def test_replaying_a_full_queue_reproduces_its_refusals() -> None:
    seen = seen_in("refuses", 40.0)
    waits = replayed(seen.due_s[None], np.full((1, len(seen.due_s)), 0.05), 1, 0.2)
    assert (np.isinf(waits[0]) == np.isinf(seen.wait_s)).all()


def test_the_number_of_workers_is_inferred_from_the_latencies() -> None:
    for name, workers in (("M/D/1", 1), ("M/D/2", 2)):
        queue = queue_from([seen_in(name, 40.0), seen_in(name, 16.0)])
        assert queue is not None
        assert queue.workers == workers
        assert queue.is_alike


def test_the_latencies_of_requests_that_share_a_cpu_do_not_resemble_those_of_a_queue() -> None:
    queue = queue_from([seen_in("shares", 50.0), seen_in("shares", 10.0)])
    assert queue is not None
    assert not queue.is_alike


def off(one: Capacity, per_s: float) -> float:
    assert one.per_s is not None
    return abs(one.per_s / per_s - 1)


@pytest.mark.parametrize(
    ("name", "allowed"), thorough([("M/D/1", 0.04), ("M/D/2", 0.04), ("M/M/2", 0.15)], quick=(("M/D/1", 0.04),))
)
def test_the_capacity_of_a_simulated_queue_is_found_within_a_minute(name: str, allowed: float) -> None:
    one, result, _ = found(name, 0)
    assert off(one, TRUTH[name]) < allowed
    assert covers(one, TRUTH[name])
    assert one.verdict == "ok"
    assert sum(step.record.case_s for step in result.steps) <= 60
    assert one.breaks.text == "p99 < 1s"
    assert exit_code(result) == 0


def test_the_capacity_of_a_cpu_bound_server_is_found_on_a_noisy_machine() -> None:
    for seed in range(2):
        one, _, machine = found("M/D/1 cpu", seed, noisy=True)
        speed = machine.mean_speed(cpus=1)
        assert off(one, speed * TRUTH_NOISY["M/D/1 cpu"]) < 0.15
        assert one.steady_per_s == pytest.approx(speed * TRUTH["M/D/1 cpu"], rel=0.15)
        assert one.steady_per_s > one.per_s


def test_the_rate_at_constant_cpu_speed_is_reported_if_the_measured_rate_differs() -> None:
    one, _, _ = found("M/D/1 cpu", 0, noisy=True)
    changed = copy(one)
    changed.per_s, changed.steady_per_s = 16.1, 17.7
    assert "would sustain 17.7/s at a constant CPU speed, instead of 16.1/s" in " ".join(conclusion([changed]))
    changed.per_s = 17.6
    assert "constant CPU speed" not in " ".join(conclusion([changed]))


def test_the_first_step_of_the_search_overloads_the_server() -> None:
    _, result, _ = found("M/D/1", 0)
    rates = [step.arrivals_per_s for step in result.steps]
    assert rates[0] > 20
    assert result.steps[0].seen_until_s >= 5.5
    assert all(0.85 * TRUTH["M/D/1"] < rate < 1.05 * TRUTH["M/D/1"] for rate in rates[1:])


def test_the_capacity_of_a_server_that_stalls_has_a_wide_interval() -> None:
    one, _, _ = found("stalls", 1)
    assert covers(one, TRUTH["stalls"])
    assert one.verdict == "undecided"


def test_refused_requests_miss_the_latency_goal() -> None:
    one, _, _ = found("refuses", 2)
    assert off(one, TRUTH["refuses"]) < 0.15
    assert covers(one, TRUTH["refuses"])


def test_a_server_with_slow_pings_at_every_rate_has_no_capacity() -> None:
    one, result, _ = searched(SERVERS["M/D/1"], ping=lambda rate: 0.08 + rate / 1000)
    assert one.lower_per_s is None
    assert one.upper_per_s == 1
    assert any(
        "no rate meets the goals; even at" in sentence and "ping p99 is" in sentence for sentence in conclusion([one])
    )
    assert json.loads(Report(result).formatted("json"))["cases"][0]["capacity_per_s"]["holds"] is None


def test_a_server_that_meets_the_goals_at_every_rate_has_no_upper_bound() -> None:
    one, result, _ = searched(Server(1, fixed(0.0001)), task_s=0.001, budget_s=15.0)
    assert one.upper_per_s is None
    assert one.lower_per_s
    assert "meets every goal at every offered rate" in " ".join(conclusion([one]))
    assert json.loads(Report(result).formatted("json"))["cases"][0]["capacity_per_s"]["fails"] is None


def test_steps_limited_by_the_load_generator_are_ignored_and_reported() -> None:
    step = offered(SERVERS["M/D/1"], 40.0, 5.0, 1, 1)
    step.arrivals.sent_s[:] = [at + 0.2 for at in step.arrivals.sent_s]
    result = result_of([])
    result.steps += [step, offered(SERVERS["M/D/1"], 10.0, 10.0, 2, 1)]
    (one,) = capacities_of(result)
    assert [each.per_s for each in one.steps] == [10.0]
    assert one.most_per_s < 40
    assert "at 40.0/s, the load generator was the limit and sent requests 200 ms late" in " ".join(conclusion([one]))


def test_a_late_load_generator_does_not_narrow_the_interval_of_the_capacity() -> None:
    result = result_of([])
    result.steps += [offered(SERVERS["M/D/1"], rate, 10.0, number, 1) for number, rate in enumerate((40.0, 13.0, 16.0))]
    late = result.steps[-1].arrivals
    late.sent_s[:] = [at + 0.4 for at in late.sent_s]
    (one,) = capacities_of(result)
    assert one.most_per_s < TRUTH["M/D/1"]
    assert covers(one, TRUTH["M/D/1"])
    assert one.lower_per_s < one.upper_per_s


def test_refusals_have_infinite_latency_and_unanswered_requests_are_censored() -> None:
    one = StepMetrics(offered(SERVERS["refuses"], 40.0, 10.0, 1, 1))
    assert one.percentile_s("response", 99) == math.inf
    assert one.good_per_s(1.0) <= 21
    queue = StepMetrics(offered(SERVERS["M/D/1"], 40.0, 10.0, 1, 1))
    assert 4.0 <= queue.percentile_s("response", 99) < 6.0


def test_the_capacity_is_reported_as_a_share_of_the_ceiling() -> None:
    _, result, _ = found("M/D/1", 0)
    result.records.append(bare_record(users=25))  # 20 requests per second
    (one,) = capacities_of(result)
    result.records.clear()
    assert one.of_ceiling == pytest.approx(one.lower_per_s / 20, rel=0.05)


def test_a_failed_capacity_search_is_reported_with_its_reason() -> None:
    step = offered(SERVERS["M/D/1"], 10.0, 5.0, 1, 1)
    step.record.failure = Failure("died", "it <b>died</b>")
    result = result_of([])
    result.steps.append(step)
    result.left_out.append(SkippedServer("7_some", "In interpreters", "3.11.7", "needs Python 3.14"))
    assert exit_code(result) == 1
    for dress in ("table", "markdown", "html", "csv", "json"):
        assert "<b>" not in Report(result).formatted(dress) or dress in ("table", "json")
    assert "search failed: it <b>died</b>" in Report(result).formatted("table")


@pytest.mark.usefixtures("undrawn")
def test_every_output_format_shows_a_capacity() -> None:
    one, result, _ = found("M/D/1", 0)
    table = Report(result).formatted("table")
    for word in ("sustained", "goodput", "ping p99", f"{one.per_s:.1f}/s", "95 % CI"):
        assert word in table
    assert f"{one.lower_per_s:.1f}/s" in Report(result).formatted("markdown")
    assert Report(result).formatted("csv").count("\n") == len(result.steps)
    (case,) = json.loads(Report(result).formatted("json"))["cases"]
    assert case["capacity_per_s"] == {"holds": one.lower_per_s, "fails": one.upper_per_s}
    assert case["goals"] == list(GOALS)
    assert "<figure>" in Report(result).formatted("html")


def test_the_chart_of_a_capacity_can_be_written(tmp_path: Path) -> None:
    _, result, _ = found("M/D/1", 0)
    Report(result).write_picture("capacity", tmp_path / "capacity.svg")
    assert "requests offered per second" in (tmp_path / "capacity.svg").read_text()


def test_narrow_terminals_do_not_truncate_rates() -> None:
    one, result, _ = found("M/D/1", 0)
    wide, narrow = io.StringIO(), io.StringIO()
    for page, width in ((wide, 200), (narrow, 34)):
        Console(file=page, width=width).print(Report(result).for_terminal())
    rates = [[line for line in page.getvalue().splitlines() if "offered" in line] for page in (wide, narrow)]
    assert len(rates[0]) < len(rates[1])
    told = [" ".join(line.partition("offered")[2] for line in lines).split() for lines in rates]
    assert told[0] == told[1]
    assert len(told[0]) == len(one.steps)


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


SUITE = """
title = "One worker"
[servers.one]
command = "{python} {script} --host {{host}} --port {{port}}"
"""


@pytest.mark.figures
def test_the_capacity_of_a_real_server_does_not_exceed_the_rate_of_its_single_worker(
    tmp_path: Path, run_cli: RunCli
) -> None:
    script = TESTS / "servers" / "one_worker.py"
    (tmp_path / "one.toml").write_text(SUITE.format(python=sys.executable, script=script))
    ran = run_cli("capacity", "one.toml", "--goal", "p99 < 1s", "--time", "12s", "--out", "c.json", "--quiet")
    assert ran.returncode in (0, 3), ran.stderr
    result = load(tmp_path / "c.json")
    assert not [step for step in result.steps if step.record.failure]
    assert all(set(step.arrivals.outcome) <= {"", "unanswered"} for step in result.steps)
    (one,) = capacities_of(result)
    assert one.upper_per_s is not None, ran.stdout  # `None` if a busy machine limited the rate
    # The server needs 50 ms per request. On a busy machine, there may be no rate that meets the goal.
    assert (one.lower_per_s or 0.0) < 20 < 1.5 * one.upper_per_s
    assert one.breaks.text == "p99 < 1s"
    assert "requests/s (95 % CI" in ran.stdout


def test_an_interrupted_search_does_not_report_that_no_rate_meets_the_goals() -> None:
    result = result_of([])
    step = offered(SERVERS["M/D/1"], 30.0, 5.0, 1, 1)
    step.arrivals.outcome[0] = "lost"  # prevents a replay
    result.steps.append(step)
    (one,) = capacities_of(result)
    assert (one.lower_per_s, one.upper_per_s, one.is_none) == (None, 30.0, False)
    assert exit_code(result) == 3
    assert "misses a goal at 30.0/s, and no lower rate was offered" in " ".join(conclusion([one]))


def test_run_rejects_a_suite_with_open_loop_load_and_suggests_capacity(tmp_path: Path, run_cli: RunCli) -> None:
    suite = SUITE.format(python=sys.executable, script="x.py").replace("[servers", '[load]\ntool = "open"\n[servers')
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
            Report(result).formatted("table")
            Report(result).formatted("json")
    except BadInputError as error:
        return "\n" not in str(error)
    return True


@pytest.mark.parametrize(("slow_pings", "is_missed"), [(2, False), (60, True)])
def test_a_step_ends_early_when_slow_pings_make_the_ping_goal_unreachable(slow_pings: int, is_missed: bool) -> None:
    step = offered(SERVERS["M/D/1"], 10.0, 10.0, 2, 1)
    step.record.pings.waited_s[:slow_pings] = [0.2] * slow_pings
    offer = Offer(None, None, None, step, [10.0], [goal(text) for text in GOALS], lambda: None)
    assert offer._are_pings_missed(np.array([10.0])) is is_missed


def test_the_service_time_of_one_worker_is_found_even_if_responses_arrive_out_of_order() -> None:
    in_order = StepMetrics(offered(SERVERS["M/D/1"], 40.0, 10.0, 1, 1)).requests(None, 0.0)
    answered = int(in_order.is_answered.sum())
    ends = in_order.due_s + in_order.wait_s
    ends[5:answered] = ends[5:answered][::-1]  # serving the last request first takes the same total time
    is_later = ends > in_order.due_s
    waits = np.where(is_later, ends - in_order.due_s, in_order.wait_s)
    queue = queue_from([StepRequests(in_order.due_s, waits, in_order.is_answered & is_later, in_order.slowness)], [1])
    assert queue is not None
    assert np.median(queue.steady_s) == pytest.approx(0.05, rel=1e-3)
