"""Ranks, markers of the best values, the conclusion, and the cases that need more rounds."""

import math
import re

import pytest
from rows import set_waits
from simulated_record import TASK_S, bare_record, record_of, result_of

from under_siege.judge.estimates import Estimate
from under_siege.judge.metrics import METRICS
from under_siege.judge.ranking import leaders, ranks, summarize
from under_siege.judge.stopping_rule import wanted
from under_siege.record.case import case_of
from under_siege.record.result import Required, Result
from under_siege.report import formatted
from under_siege.run.conclusion import Answer, answers

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
    assert not any(
        "cpu_s_per_transaction" in of_case for of_case in best.values()
    )  # all values are equal, so none is the best


def test_after_one_round_only_differences_above_the_usual_noise_change_the_rank() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 0.95), ("3_c", 2, 1.0))
    result.records[:] = [record for record in result.records if record.round == 1]
    comparison = summarize(result)
    assert [case.rank for case in comparison.cases] == [2, 2, 1]
    assert answer_to(result).headline == "Use a process pool (3_c)."


def test_reports_begin_with_a_conclusion_that_uses_plain_names() -> None:
    result = with_pings(three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0), ("3_c", 2, 1.0)), 0.4, "1_a", "2_b")
    answer = answer_to(result)
    assert answer.headline == "Use a process pool (3_c)."
    assert dict(answer.facts) == {
        "throughput": "20.0 ± 0.27 trans/s, 100 % of the ceiling; nothing is significantly faster",
        "health check": "2.0 ms p99 under full load",
        "memory": "50 MB",
    }
    assert answer.remarks == [
        "Short of memory? 1_a: 25 MB, 50 % of the throughput, but health checks take 412 ms (p99).",
        "Slower: servers 1 and 2 (server 3 is 2.0 times as fast).",
    ]
    assert len(answer.facts) + len(answer.remarks) <= 6
    assert formatted(result, "table").startswith("Use a process pool (3_c).")
    assert formatted(result, "markdown").startswith("**Use a process pool (3_c).**")


def test_the_conclusion_states_the_throughput_ratio_of_two_cases() -> None:
    answer = answer_to(three_rounds(("1_a", 1, 1.0), ("3_c", 2, 1.0)))
    assert re.search(r"; 2\.00 ± 0\.0\d\d times as fast as 1_a$", dict(answer.facts)["throughput"])
    assert not any(remark.startswith("Slower") for remark in answer.remarks)


def test_ties_are_broken_by_pings_and_then_by_memory() -> None:
    result = with_pings(three_rounds(("1_a", 2, 1.0), ("3_c", 2, 1.0), ("4_d", 2, 1.0)), 0.4, "1_a")
    for record in result.records:
        factor = {"1_a": 0.2, "3_c": 0.5}.get(record.server, 1.0)
        record.samples.memory_bytes[:] = [int(factor * size) for size in record.samples.memory_bytes]
    answer = answer_to(result)
    assert answer.headline == "Use a process pool (3_c)."
    assert answer.remarks[0] == "Short of memory? 1_a: 10 MB, similar throughput, but health checks take 412 ms (p99)."
    assert answer.remarks[1] == "Not significantly different in throughput: 1_a and 4_d."
    detectable = r"A difference of \d+ % would show in 80 % of runs like this one; a smaller one may be missed\."
    assert re.fullmatch(detectable, answer.remarks[2])


def test_the_conclusion_names_an_alternative_if_the_fastest_blocks_health_checks() -> None:
    result = with_pings(three_rounds(("1_a", 2, 1.0), ("4_d", 1, 1.0)), 0.4, "1_a")
    answer = answer_to(result)
    assert answer.headline == "Use one request at a time (1_a)."
    assert dict(answer.facts)["health check"] == "412 ms p99 under full load, longer than one task (100 ms)"
    assert "Need quick health checks? 4_d: 2.0 ms p99, 50 % of the throughput." in answer.remarks


def test_titles_without_a_colon_are_not_used_as_names() -> None:
    assert answer_to(three_rounds(("my_server", 2, 1.0), ("other", 1, 1.0))).headline == "Use my_server."


def test_the_conclusion_states_that_tied_strategies_do_not_differ_significantly() -> None:
    answer = answer_to(three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0)))
    assert dict(answer.facts)["throughput"].endswith("; no strategy is significantly faster or slower")


def test_the_conclusion_for_a_single_server_states_the_throughput() -> None:
    answer = answer_to(three_rounds(("1_a", 1, 1.0)))
    assert answer.headline == "Measured: one request at a time (1_a)."
    assert re.fullmatch(r"10\.0 ± 0\.\d+ trans/s, 50 % of the ceiling", dict(answer.facts)["throughput"])


def test_the_conclusion_has_a_line_for_each_load() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("3_c", 2, 1.0))
    for record in three_rounds(("1_a", 2, 1.0), ("3_c", 1, 1.0)).records:
        record.values["task"] = "digest"
        result.records.append(record)
    digest, primes = (answer.headline for answer in answers(summarize(result)))
    assert primes.startswith("primes: use a process pool (3_c): 20.0 ± ")
    assert digest.startswith("digest: use one request at a time (1_a): 20.0 ± ")
    assert digest.endswith(" of the ceiling, health checks 2.0 ms (p99).")


def test_suspect_cases_are_named_and_not_recommended() -> None:
    answer = answer_to(three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0), ("3_c", 2, 41.0)))
    assert answer.remarks[-1] == "Not ranked: server 3 (suspect)."
    assert "process pool" not in answer.headline
    nothing = answer_to(three_rounds(("3_c", 2, 41.0)))
    assert nothing.headline == "No recommendation: every strategy failed or is suspect."


def unverified(result: Result, server: str, cpu: float) -> Result:
    """Multiply one server's CPU time by `cpu`, so that its case is unclear but not suspect, and return the result."""
    for record in result.records:
        if record.server == server:
            record.samples.cpu_s[:] = [value * cpu for value in record.samples.cpu_s]
    return result


def test_a_faster_unverified_case_prevents_a_recommendation() -> None:
    result = unverified(three_rounds(("1_a", 1, 1.0), ("2_b", 1, 0.9), ("3_c", 2, 1.0)), "3_c", 0.72)
    assert [case.verdict for case in summarize(result).cases] == ["ok", "ok", "unclear"]
    answer = answer_to(result)
    assert (
        answer.headline
        == "No recommendation: a process pool (3_c) may be the fastest, with 19.8/s to 20.3/s, but it is unclear."
    )
    assert answer.remarks[0].startswith("The fastest verified strategy is one request at a time (1_a): 10.0 ± ")


def test_the_conclusion_names_an_unverified_case_that_may_be_as_fast() -> None:
    answer = answer_to(unverified(three_rounds(("1_a", 2, 1.0), ("2_b", 1, 1.0), ("3_c", 2, 1.0)), "3_c", 0.72))
    assert answer.headline == "Use one request at a time (1_a)."
    assert answer.remarks[-1] == "Not ranked: server 3 (unclear, possibly as fast)."


def test_an_unclear_case_with_a_much_higher_but_uncertain_rate_prevents_a_recommendation() -> None:
    """Give the unclear case 2.3 times the rate of the other, with an interval of 205 to 902 responses per second."""
    result = unverified(three_rounds(("1_a", 1, 1.0), ("3_c", 2, 1.0), noise=(1.0, 1.0, 1.0)), "3_c", 0.72)
    comparison = summarize(result)
    wide = Estimate(math.log(430), 0.37**2, 4.0, 2.0, 0.37**2, 6.0)
    fine = Estimate(math.log(184), 0.08**2, 6.0, 2.0, 0.08**2, 6.0)
    comparison.measured["rate_per_s"][:] = [fine, wide]
    (answer,) = answers(comparison)
    assert answer.case is None
    assert answer.headline.startswith("No recommendation: a process pool (3_c) may be the fastest, with 1")
    assert answer.remarks[0].startswith("The fastest verified strategy is one request at a time (1_a)")


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


@pytest.mark.usefixtures("undrawn")
def test_flags_name_cases_by_the_axis_values_that_distinguish_them() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("3_c", 2, 41.0))
    more = three_rounds(("1_a", 1, 1.0), ("3_c", 2, 41.0))
    for record in more.records:
        record.values["task"] = "digest"
    result.records += more.records
    for dress in ("table", "markdown", "html"):
        text = " ".join(formatted(result, dress).split())
        assert any(names in text for names in ("3_c (primes), 3_c (digest): ", "3_c (digest), 3_c (primes): "))


@pytest.mark.parametrize("width", [60, 80, 100, 130, 200])
def test_figures_and_markers_are_never_truncated(width: int) -> None:
    import io

    from rich.console import Console

    from under_siege.run.view import view
    from under_siege.show.formats.table import renderable

    result = with_pings(three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0), ("3_c", 2, 1.0)), 0.4, "1_a", "2_b")
    page = io.StringIO()
    Console(file=page, width=width, color_system=None).print(renderable(view(summarize(result))))
    lines = page.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    whole = formatted(result, "table")
    assert page.getvalue().count("*") == whole.count("*")
    assert "…" not in page.getvalue()
    for figure in ("20.0 ± 0.27*", "10.0", "2.0 ms*", "412 ms", "25 MB*", "50 MB"):
        assert figure in page.getvalue()


def case_named(server: str):
    return case_of(server, {"task": "primes", "users": 5, "python": "3.11.7"})


def first_rounds(result: Result, count: int) -> Result:
    result.records[:] = [record for record in result.records if record.round <= count]
    return result


def test_every_case_gets_a_second_round_starting_with_the_best_cases() -> None:
    servers = (("1_a", 1, 1.0), ("3_c", 2, 1.0), ("4_d", 2, 0.98))
    found = wanted(first_rounds(three_rounds(*servers), 1))
    assert found[-1] == case_named("1_a")
    assert set(found) == {case_named(name) for name in ("1_a", "3_c", "4_d")}


def test_cases_that_may_be_the_best_get_a_third_round() -> None:
    noisy = (1.0, 1.15, 0.9)
    servers = (("1_a", 1, 1.0), ("3_c", 2, 1.0), ("4_d", 2, 0.93))
    assert set(wanted(three_rounds(*servers, noise=noisy))) == {case_named("3_c"), case_named("4_d")}
    assert wanted(three_rounds(("1_a", 1, 1.0), ("3_c", 2, 1.0))) == []


def test_unclear_cases_and_cases_with_undecided_requirements_get_another_round() -> None:
    result = unverified(three_rounds(("1_a", 1, 1.0), ("3_c", 2, 1.0)), "1_a", 0.72)
    assert wanted(result) == [case_named("1_a")]
    result = three_rounds(("1_a", 1, 1.0), ("3_c", 2, 1.0))
    result.requirements.append(Required("rate >= 10/s"))
    assert wanted(result) == [case_named("1_a")]


def test_the_task_duration_is_the_median_of_the_reference_runs() -> None:
    from under_siege.judge.round_statistics import alone_wall_s

    result = three_rounds(("1_a", 1, 1.0))
    for record in result.records:
        record.alone_wall_s[:] = [0.3, 0.2, 9.0]
    comparison = summarize(result)
    work = comparison.cases[0].case.work
    assert work == (("task", "primes"), ("python", "3.11.7"))
    assert alone_wall_s(comparison.rounds_of(work)) == 0.3
    assert alone_wall_s(comparison.rounds_of((("task", "digest"),))) is None
    assert TASK_S == 0.1
