"""Ranks, markers of the best values, the conclusion, and the cases that need more rounds."""

import io
import math

import msgspec
import pytest
from formatted import formatted
from rich.console import Console
from rows import set_waits
from simulated_record import bare_record, record_of, result_of

from under_siege.judge.estimates import Estimate
from under_siege.judge.metrics import METRICS
from under_siege.judge.ranking import leaders, ranks, summarize
from under_siege.judge.round_statistics import alone_wall_s
from under_siege.record.result import MeasuredSuite, PlannedCase, Result
from under_siege.run.conclusion import Answer, answers
from under_siege.run.view import view
from under_siege.show.formats.table import renderable
from under_siege.suite.suite import Kind

ROUNDS = (1, 2, 3)
NOISE = (1.0, 1.004, 0.997)
TITLES = {
    "1_a": "One request at a time: all others wait.",
    "2_b": "On the loop: the same.",
    "3_c": "In a process pool: every core computes.",
    "4_d": "In threads: waiting is shared.",
}


def three_rounds(*servers: tuple[str, int, float], noise=NOISE, **environment) -> Result:
    """Return three rounds of servers (name, workers, speed) and the ceiling; `noise` has a speed factor per round."""
    records = [bare_record(round_, speed=factor) for round_, factor in zip(ROUNDS, noise, strict=True)]
    for place, (server, workers, speed) in enumerate(servers):
        for round_, factor in zip(ROUNDS, noise, strict=True):
            own = factor * (1 + 0.001 * ((place + round_) % 3))
            title = TITLES.get(server, "A title without a colon")
            record = record_of(server, round_, workers=workers, speed=speed * own, idle_answer_s=0.11, title=title)
            record.samples.cpu_s[:] = [value * 1.2 for value in record.samples.cpu_s]
            record.machine = None
            records.append(record)
    return result_of(records, **environment)


def answer_to(result: Result) -> Answer:
    (answer,) = answers(summarize(result))
    return answer


def with_pings(result: Result, waited_s: float, *servers: str) -> Result:
    for record in result.records:
        if record.server in servers:
            set_waits(record.requests, waited_s * (1 + 0.01 * record.round))
    return result


def test_cases_that_do_not_differ_significantly_share_a_rank() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.001), ("3_c", 2, 1.0), ("4_d", 1, 0.8))
    ranks = {case.server: case.rank for case in summarize(result).cases}
    assert ranks == {"3_c": 1, "1_a": 2, "2_b": 2, "4_d": 4}


def test_a_rank_is_one_plus_the_number_of_significantly_better_cases() -> None:
    rates = [Estimate(log, variance=0.001, degrees=30.0) for log in (0.0, -0.1, -0.16, -0.9)]
    load = object()
    assert ranks([load] * 4, rates) == [1, 1, 2, 4]
    assert ranks([load, load, None, load], rates) == [1, 1, None, 3]
    shown = [rate.mean for rate in rates]
    assert leaders([load] * 4, rates, shown, METRICS["rate_per_s"]) == [True, True, False, False]


def test_all_cases_not_significantly_worse_than_the_best_are_marked_as_best() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.001), ("3_c", 2, 1.0))
    with_pings(result, 0.4, "1_a")
    best = {case.server: set(case.best) for case in summarize(result).cases}
    assert "rate_per_s" in best["3_c"]
    assert "rate_per_s" not in best["1_a"] | best["2_b"]
    assert "memory_bytes" in best["1_a"] & best["2_b"]
    assert "ping_p99_s" in best["2_b"] & best["3_c"]
    assert "ping_p99_s" not in best["1_a"]
    assert not any("cpu_s_per_transaction" in of_case for of_case in best.values())  # all values are equal


def test_after_one_round_no_case_has_a_rank_and_the_conclusion_says_why(golden) -> None:
    result = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 0.95), ("3_c", 2, 1.0))
    result.records[:] = [record for record in result.records if record.round == 1]
    comparison = summarize(result)
    assert [(case.rank, case.best) for case in comparison.by_rank()[:3]] == [(None, [])] * 3
    assert [case.server for case in comparison.by_rank()] == ["3_c", "1_a", "2_b", "bare"]
    answer = answer_to(result)
    assert answer.case is None
    golden(answer.headline, *answer.remarks)


def test_memory_that_is_unknown_does_not_decide() -> None:
    for unknown in ("3_c", "4_d"):
        result = with_pings(three_rounds(("3_c", 2, 1.0), ("4_d", 2, 1.0), ("1_a", 1, 1.0)), 0.02, "4_d")
        for record in result.records:
            if record.server == unknown:
                record.samples.memory_bytes.clear()
        answer = answer_to(with_pings(result, 0.03, "3_c"))
        assert answer.case is not None
        assert answer.case.server == "4_d"
        assert any("because its health checks are the quickest" in remark for remark in answer.remarks)


def test_if_there_was_time_for_one_round_only_the_conclusion_says_what_to_do(golden) -> None:
    result = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 0.95))
    result.records[:] = [record for record in result.records if record.round == 1]
    result.until_certain = True
    golden(answer_to(result).headline)


def with_memory(result: Result, factors: dict[str, float]) -> Result:
    for record in result.records:
        factor = factors.get(record.server, 1.0)
        record.samples.memory_bytes[:] = [int(factor * size) for size in record.samples.memory_bytes]
    return result


def unverified(result: Result, server: str, cpu: float = 0.72) -> Result:
    """Multiply one server's CPU time by `cpu`, so that its case is unclear but not suspect, and return the result."""
    for record in result.records:
        if record.server == server:
            record.samples.cpu_s[:] = [value * cpu for value in record.samples.cpu_s]
    return result


def with_a_starved_server(result: Result, server: str) -> Result:
    """Let the load tool use half of the CPU time beside one server, so that its rate is lower than it could be."""
    for record in result.records:
        if record.server == server:
            record.machine = record_of(server).machine
            record.tool_cpu_s = record.machine.total_s / 4
    return result


def of_two_tasks(primes: Result, digest: Result) -> Result:
    for record in digest.records:
        record.values["task"] = "digest"
    primes.records.extend(digest.records)
    return primes


THREE = (("1_a", 1, 1.0), ("2_b", 1, 1.0), ("3_c", 2, 1.0))
TIED = with_pings(three_rounds(("1_a", 2, 1.0), ("3_c", 2, 1.0), ("4_d", 2, 1.0)), 0.4, "1_a")
# Each result, and the server that is recommended, if any.
CONCLUSIONS = {
    "the fastest": (with_pings(three_rounds(*THREE), 0.4, "1_a", "2_b"), "3_c"),
    "the faster of two": (three_rounds(("1_a", 1, 1.0), ("3_c", 2, 1.0)), "3_c"),
    "the fastest with quick pings and little memory": (with_memory(TIED, {"1_a": 0.2, "3_c": 0.5}), "3_c"),
    "the fastest, although it blocks pings": (
        with_pings(three_rounds(("1_a", 2, 1.0), ("4_d", 1, 1.0)), 0.4, "1_a"),
        "1_a",
    ),
    "a server whose title has no colon": (three_rounds(("my_server", 2, 1.0), ("other", 1, 1.0)), "my_server"),
    "one of two equal ones": (three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0)), "1_a"),
    "none if there is a single server": (three_rounds(("1_a", 1, 1.0)), None),
    "none that is suspect": (three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0), ("3_c", 2, 41.0)), "1_a"),
    "none if all are suspect": (three_rounds(("3_c", 2, 41.0)), None),
    "none if an unverified one may be faster": (
        unverified(three_rounds(("1_a", 1, 1.0), ("2_b", 1, 0.9), ("3_c", 2, 1.0)), "3_c"),
        None,
    ),
    "none if the load tool left a faster one too little CPU time": (
        with_a_starved_server(three_rounds(("1_a", 1, 1.0), ("2_b", 1, 0.9), ("3_c", 2, 1.0)), "3_c"),
        None,
    ),
    "one although the load tool left a slower one too little CPU time": (
        with_a_starved_server(three_rounds(("1_a", 1, 1.0), ("2_b", 1, 0.7), ("3_c", 2, 1.0)), "2_b"),
        "3_c",
    ),
    "one although an unverified one may be as fast": (
        unverified(three_rounds(("1_a", 2, 1.0), ("2_b", 1, 1.0), ("3_c", 2, 1.0)), "3_c"),
        "1_a",
    ),
}


@pytest.mark.parametrize("name", CONCLUSIONS)
def test_the_conclusion_recommends(name: str, golden) -> None:
    result, server = CONCLUSIONS[name]
    answer = answer_to(result)
    assert (answer.case and answer.case.server) == server
    assert len(answer.facts) + len(answer.remarks) <= 7
    golden(answer.headline, *(f"{label}: {text}" for label, text in answer.facts), *answer.remarks)


def test_the_conclusion_has_a_line_for_each_load(golden) -> None:
    primes, digest = three_rounds(("1_a", 1, 1.0), ("3_c", 2, 1.0)), three_rounds(("1_a", 2, 1.0), ("3_c", 1, 1.0))
    found = answers(summarize(of_two_tasks(primes, digest)))
    assert [answer.case.server for answer in found] == ["1_a", "3_c"]
    golden(*(answer.headline for answer in found))


def beside_an_unclear_case(of_ceiling: float) -> Answer:
    """Return the answer for a case with this share of the ceiling, beside an unclear one with 2.3 times its rate."""
    result = unverified(three_rounds(("1_a", 1, 1.0), ("3_c", 2, 1.0), noise=(1.0, 1.0, 1.0)), "3_c")
    comparison = summarize(result)
    wide = Estimate(math.log(430), 0.37**2, 4.0, 2.0, 0.37**2, 6.0)
    fine = Estimate(math.log(184), 0.08**2, 6.0, 2.0, 0.08**2, 6.0)
    comparison.measured["rate_per_s"][:] = [fine, wide]
    interval = msgspec.structs.replace(comparison.cases[0].of_ceiling, mean=of_ceiling)
    comparison.cases[0] = msgspec.structs.replace(comparison.cases[0], of_ceiling=interval)
    (answer,) = answers(comparison)
    return answer


def test_an_unclear_case_with_a_much_higher_but_uncertain_rate_prevents_a_recommendation() -> None:
    assert beside_an_unclear_case(0.5).case is None


def test_no_unclear_case_prevents_the_recommendation_of_a_case_that_is_near_the_ceiling() -> None:
    answer = beside_an_unclear_case(0.94)
    assert answer.case.server == "1_a"
    assert answer.facts[0][1].endswith("94 % of the ceiling, so nothing can be much faster")
    assert answer.remarks[0] == "Recommended because it was the fastest of those that could be verified."


def test_several_strategies_of_a_kind_that_are_equally_good_are_recommended_together(golden) -> None:
    result = three_rounds(("1_sync", 1, 1.0), ("4_pool", 2, 1.0), ("9_pebble", 2, 1.001), ("13_dirty", 2, 0.999))
    kinds = {"1_sync": Kind.IN_LINE, "4_pool": Kind.PROCESSES, "9_pebble": Kind.PROCESSES, "13_dirty": Kind.PROCESSES}
    for record in result.records:
        record.kind = kinds.get(record.server, "")
    answer = answer_to(with_memory(result, {"9_pebble": 0.9}))
    assert answer.headline == "Use a process pool (4, 9 or 13)."
    assert answer.case.server == "9_pebble"
    assert answer.remarks[0] == "9_pebble is recommended because it needs the least memory."
    blocked = answer_to(with_pings(result, 0.4, "4_pool"))
    assert blocked.headline == "Use a process pool (9 or 13)."


def test_servers_of_an_application_that_are_equally_good_with_the_same_workers_are_recommended_together() -> None:
    servers = [("granian", 1, 1.0), ("uvicorn", 1, 1.0), ("granian", 2, 1.0), ("uvicorn", 2, 1.001)]
    result = three_rounds(*servers)
    result.suite = MeasuredSuite(title="My suite")
    for record in result.records:
        if not record.is_ceiling:
            record.values["workers"] = record.workers
    answer = answer_to(result)
    assert answer.headline == "Use 2 workers (granian or uvicorn)."
    assert "is recommended because" in answer.remarks[0]


def test_the_table_is_sorted_by_rank_and_ping_and_ends_with_the_ceiling() -> None:
    servers = (("1_a", 1, 1.0), ("2_b", 1, 1.0), ("3_c", 2, 1.0), ("4_d", 2, 41.0), ("5_e", 1, 1.0))
    result = with_pings(with_pings(three_rounds(*servers), 0.4, "1_a"), 0.3, "2_b")
    rows = [line.split() for line in formatted(result, "table").split("─\n")[1].splitlines()[:6]]
    assert [row[:3] if row[0] == "→" else row[:2] for row in rows[:4]] == [
        ["→", "1", "3_c"],
        ["2", "5_e"],
        ["2", "2_b"],
        ["2", "1_a"],
    ]
    assert [row[0] for row in rows[4:]] == ["4_d", "ceiling"]


def test_flags_name_cases_by_the_axis_values_that_distinguish_them(golden) -> None:
    primes, digest = (three_rounds(("1_a", 1, 1.0), ("3_c", 2, 41.0)) for _ in range(2))
    result = of_two_tasks(primes, digest)
    golden(*(f"{note.label} {note.subject}: {note.text}" for note in view(summarize(result)).notes))


@pytest.mark.parametrize("width", [60, 100, 200])
def test_figures_and_markers_are_never_truncated(width: int) -> None:
    result = with_pings(three_rounds(*THREE), 0.4, "1_a", "2_b")
    page = io.StringIO()
    Console(file=page, width=width, color_system=None).print(renderable(view(summarize(result))))
    assert max(map(len, page.getvalue().splitlines())) <= width
    assert page.getvalue().count("*") == formatted(result, "table").count("*")
    assert "…" not in page.getvalue()
    for figure in ("20.0 ± 0.27*", "10.0", "2.0 ms*", "412 ms", "25 MB*", "50 MB"):
        assert figure in page.getvalue()


def test_the_task_duration_is_the_median_of_the_reference_runs() -> None:
    result = three_rounds(("1_a", 1, 1.0))
    for record in result.records:
        record.alone_wall_s[:] = [0.3, 0.2, 9.0]
    comparison = summarize(result)
    work = comparison.cases[0].case.work
    assert work == (("task", "primes"), ("python", "3.11.7"))
    assert alone_wall_s(comparison.rounds_of(work)) == 0.3
    assert alone_wall_s(comparison.rounds_of((("task", "digest"),))) is None


def test_an_interrupted_run_names_what_is_missing_and_recommends_nothing() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("3_c", 2, 1.9))
    assert view(summarize(result)).headline[0].text.startswith("Use ")
    cases = {record.case for record in result.records if record.server != "bare"}
    result.planned = [PlannedCase(case.server, dict(case.values)) for case in cases]
    result.planned.append(PlannedCase("4_d", dict(next(iter(cases)).values)))
    shown = view(summarize(result))
    (first,) = shown.headline
    assert first.text == "Interrupted, so no conclusion: 1 of 3 cases not measured (4_d)."
    assert not any(row.is_main for row in shown.tables[0].rows)
    result.planned.pop()
    texts = [paragraph.text for paragraph in view(summarize(result)).headline]
    assert texts[0] == "Interrupted: every case was measured, but less often than planned."
    assert texts[1].startswith("Use ")
