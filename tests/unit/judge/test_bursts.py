"""Rates, percentiles and verdicts for load tools that report totals per burst instead of single responses."""

import pytest
from formatted import formatted
from rows import add_check
from simulated_bursts import burst_record_of
from simulated_record import CPUS, TASK_S, TIME_S, bare_record, record_of, result_of
from verdicts import codes, judged

from under_siege.judge.ranking import summarize
from under_siege.judge.round_statistics import Round
from under_siege.measure.siege_length import Length
from under_siege.record.record import Machine, Ports
from under_siege.record.result import load, save
from under_siege.suite.expected_response import Expectation


@pytest.mark.parametrize("workers", [1, 2])
def test_an_honest_server_gets_the_verdict_ok_and_figures_that_match_its_task_time(workers: int) -> None:
    case = judged(burst_record_of("1_x", workers=workers))
    assert (case.verdict, case.reasons) == ("ok", [])
    assert case.rate_per_s.mean == pytest.approx(workers / TASK_S, rel=0.03)
    assert case.of_ceiling.mean == pytest.approx(workers / CPUS, rel=0.04)
    assert case.response_s.p50 == pytest.approx(5 * TASK_S / workers)
    assert case.response_s.p99 == pytest.approx(6 * TASK_S / workers)
    assert case.response_s.max == pytest.approx(6.5 * TASK_S / workers)
    assert case.availability_pct == 100
    assert case.cpu_s_per_transaction == pytest.approx(TASK_S, rel=0.05)


def test_pauses_between_bursts_do_not_lower_the_rate() -> None:
    case = judged(burst_record_of("1_x", took_s=0.5, right=5, body_bytes=20))
    assert case.rate_per_s.mean == pytest.approx(10)


def test_percentiles_are_medians_over_the_bursts() -> None:
    record = burst_record_of("1_x")
    record.bursts.p50_s[:] = [0.5, 0.51, 0.52, 3.0]
    assert judged(record).response_s.p50 == pytest.approx(0.515)


def test_rates_and_percentiles_of_several_rounds_have_confidence_intervals() -> None:
    records = [burst_record_of("1_x", number, p50_s=0.5 + 0.01 * number) for number in (1, 2, 3)]
    (case,) = summarize(result_of([*(bare_record(number) for number in (1, 2, 3)), *records])).cases
    assert case.rate_per_s.low < case.rate_per_s.mean < case.rate_per_s.high
    assert case.response_s.p50 == pytest.approx(0.52)
    assert case.response_s.p50_low < 0.52 < case.response_s.p50_high


def test_response_times_are_missing_if_the_load_tool_reports_no_percentiles() -> None:
    case = judged(burst_record_of("1_x", p50_s=None, p95_s=None, p99_s=None))
    assert (case.verdict, case.response_s) == ("ok", None)


def test_rates_above_the_ceiling_are_suspect() -> None:
    assert "above_ceiling" in codes(judged(burst_record_of("1_x", right=400, body_bytes=1600)))


def test_a_median_response_time_below_the_task_duration_is_flagged_as_too_fast() -> None:
    assert codes(judged(burst_record_of("1_x", p50_s=TASK_S / 2))) == ["too_fast"]
    for errors in ("wrong_status", "unanswered"):  # the fast responses may be the errors
        assert "too_fast" not in codes(judged(burst_record_of("1_x", p50_s=TASK_S / 2, **{errors: 5})))


def test_wrong_statuses_and_missing_responses_lower_availability() -> None:
    case = judged(burst_record_of("1_x", wrong_status=5, unanswered=5))
    assert codes(case) == ["availability"]
    assert case.availability_pct == pytest.approx(50)


def test_a_case_without_correct_responses_fails() -> None:
    case = judged(burst_record_of("1_x", right=0, wrong_status=9, body_bytes=36))
    assert (case.verdict, codes(case)) == ("failed", ["no_transactions"])


@pytest.mark.parametrize("each", [0, 3, 8])
def test_responses_of_an_unexpected_length_fail_the_case(each: int) -> None:
    record = burst_record_of("1_x", right=100, body_bytes=each * 100)
    assert (judged(record).verdict, codes(judged(record))) == ("failed", ["wrong_answer"])


def test_responses_whose_contents_a_script_rejects_fail_the_case() -> None:
    record = burst_record_of("1_x", wrong_status=3, wrong_contents=2)
    assert (judged(record).verdict, codes(judged(record))) == ("failed", ["wrong_answer"])


@pytest.mark.parametrize("more", [12, 20, -20, 21, -21])
def test_received_bytes_may_deviate_by_one_response_in_flight_per_user(more: int) -> None:
    """At the end of each burst, each of the five users may have a response in flight."""
    expected = [] if abs(more) <= 5 * 4 else ["wrong_answer"]
    assert codes(judged(burst_record_of("1_x", body_bytes=4 * 10 + more))) == expected


@pytest.mark.parametrize("tool", ["ab", "wrk"])
def test_a_busy_load_tool_is_reported_as_the_bottleneck(tool: str) -> None:
    record = burst_record_of("1_x", tool=tool, tool_awake=0.93)
    assert codes(judged(record)) == ["generator"]
    assert codes(judged(burst_record_of("1_x", tool=tool, tool_awake=0.6))) == []
    threads = burst_record_of("1_x", tool=tool, tool_awake=0.93)
    threads.tool_cpus = 2
    assert codes(judged(threads)) == []


def test_one_busy_locust_worker_is_reported_as_the_bottleneck() -> None:
    record = burst_record_of("1_x", tool="locust", tool_awake=0.3)
    assert codes(judged(record)) == []
    record.tool_report = "Worker box_1 (index 0) exceeded cpu threshold (will only log this once per worker)"
    assert codes(judged(record)) == ["generator"]


@pytest.mark.parametrize(("ceiling_awake", "expected"), [(0.97, {"generator"}), (0.3, {"above_ceiling", "generator"})])
def test_rates_above_the_ceiling_are_flagged_unless_the_load_tool_limited_the_ceiling(
    ceiling_awake: float, expected: set[str]
) -> None:
    """If the load tool limits the ceiling, the ceiling is too low, so a higher rate is not suspect."""
    ceiling, record = burst_record_of("nginx", tool_awake=ceiling_awake), burst_record_of("1_x", 1, 2, tool_awake=0.97)
    ceiling.is_ceiling = True
    ceiling.has_task = record.has_task = False
    (case,) = [one for one in summarize(result_of([ceiling, record])).cases if one.server == "1_x"]
    assert set(codes(case)) == expected


def test_the_cpu_time_of_the_load_tool_is_used_if_the_awake_time_is_unknown() -> None:
    assert codes(judged(burst_record_of("1_x", tool_awake=None, tool_cpu_s=0.95))) == ["generator"]
    assert codes(judged(burst_record_of("1_x", tool_awake=None, tool_cpu_s=0.5))) == []


def test_siege_is_reported_as_the_bottleneck_only_if_the_cpus_are_busy() -> None:
    """siege has one thread per user, so its CPU time matters only if the CPUs are busy."""
    for idle_s, expected in ((2.0, []), (0.9, []), (0.7, ["generator"]), (0.1, ["generator"])):
        machine = Machine(total_s=8, busy_s=4.9, steal_s=0, idle_s=idle_s)
        assert codes(judged(record_of("1_x", tool_cpu_s=0.8, machine=machine))) == expected


@pytest.mark.parametrize(("load_cpus", "tool_cpu_s", "expected"), [(1, 3.5, ["generator"]), (1, 2.8, []), (2, 3.5, [])])
def test_a_load_with_cpus_of_its_own_is_the_bottleneck_only_if_these_are_busy(load_cpus, tool_cpu_s, expected) -> None:
    machine = Machine(total_s=16, busy_s=4.1 + tool_cpu_s, steal_s=0, idle_s=0)
    record = record_of("1_x", tool_cpu_s=tool_cpu_s, load_cpus=load_cpus, machine=machine)
    assert codes(judged(record)) == expected
    burst = burst_record_of("1_x", tool="wrk", tool_awake=0.93)
    burst.load_cpus = load_cpus
    assert codes(judged(burst)) == ["generator"]


def test_exhausted_local_ports_are_detected() -> None:
    def judged_with(taken: int, *, reused: bool, errors: int) -> list[str]:
        record = burst_record_of("1_x", connect_errors=errors, unanswered=errors)
        record.ports, record.port_range, record.ports_are_reused = Ports([0.0, 1.0], [5, taken]), 28232, reused
        return codes(judged(record))

    siege = record_of("1_x", unlisted_losses=1, port_range=28232, ports_are_reused=True)
    siege.ports = Ports([0.0], [15000])
    assert codes(judged(siege)) == ["availability", "ports"]
    siege.tool_errors = ["socket: address is unavailable.: Cannot assign requested address"]
    assert codes(judged(siege)) == ["availability", "ports"]
    siege.tool_errors = ["socket: read error Connection reset by peer: Connection reset by peer"]
    assert codes(judged(siege)) == ["availability"]
    assert judged_with(27000, reused=False, errors=0) == ["ports"]
    assert judged_with(25000, reused=False, errors=0) == []
    assert judged_with(27000, reused=True, errors=0) == []
    assert judged_with(15000, reused=True, errors=1) == ["availability", "ports"]
    assert judged_with(9000, reused=False, errors=1) == ["availability"]


def test_requests_sent_by_the_bench_are_included_in_the_rate() -> None:
    checked = burst_record_of("1_x")
    add_check(checked, 0.5, 0.6)
    more = judged(checked).rate_per_s.mean - judged(burst_record_of("1_x")).rate_per_s.mean
    assert more == pytest.approx(1 / TIME_S, rel=0.05)


def test_requests_sent_by_the_bench_are_in_no_rate_of_users_who_pause() -> None:
    checked, unchecked = burst_record_of("1_x"), burst_record_of("1_x")
    for record in (checked, unchecked):
        record.values["pause"] = "1s"
    add_check(checked, 0.5, 0.6)
    assert Round(checked).rate == Round(unchecked).rate


@pytest.mark.usefixtures("undrawn")
def test_a_result_with_bursts_can_be_saved_loaded_and_shown(tmp_path) -> None:
    result = result_of([bare_record(), burst_record_of("1_x"), burst_record_of("2_x", p50_s=None, p99_s=None)])
    save(result, tmp_path / "r.json")
    assert load(tmp_path / "r.json") == result
    for dress in ("markdown", "csv", "json", "html"):
        assert "1_x" in formatted(result, dress)


@pytest.mark.parametrize(("column", "value"), [("took_s", 0.0), ("right", -1), ("p50_s", -1.0), ("tool_awake", -0.1)])
def test_bursts_with_impossible_values_are_rejected(tmp_path, column: str, value: float) -> None:
    save(result_of([burst_record_of("1_x", **{column: value})]), tmp_path / "r.json")
    with pytest.raises(ValueError, match=rf"Expected .* at .*\.bursts\.{column}"):
        load(tmp_path / "r.json")


def test_the_load_has_fewer_bursts_if_requests_in_flight_are_slow_to_finish() -> None:
    """Requests in flight at the end of a burst delay the next burst."""
    assert Length(4.0, 25, Expectation(b"4", 0.0001, 0.0001)).bursts(1.0) == (4, 1.0)
    assert Length(60.0, 25, Expectation(b"4", 0.0001, 0.0001)).bursts(1.0) == (8, 7.5)
    assert Length(4.0, 25, Expectation(b"4", 0.04, 0.04)).bursts(1.0) == (1, 4.0)
    assert Length(60.0, 25, Expectation(b"4", 0.04, 0.04)).bursts(1.0) == (
        5,
        12.0,
    )  # a burst lasts at least ten cycles of request and response (10.4 s)
    assert Length(0.5, 2, Expectation(b"4", 0.0001, 0.0001)).bursts(1.0) == (1, 0.5)
