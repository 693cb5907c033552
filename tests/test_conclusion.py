"""Ranks, stars, the conclusion and enough rounds."""

import pytest
from simulated_record import TASK_S, bare_record, record_of, result_of

from common.model.case import case_of
from common.model.record import Result
from common.report.dressing import dressed
from common.report.figures.estimates import Estimate, differ
from common.report.figures.measures import MEASURES
from common.report.judging.stopping_rule import wanted
from common.report.judging.comparison import summarize
from common.report.judging.ranking import leaders, ranks
from common.report.words.conclusion import conclusion

ROUNDS = (1, 2, 3)
NOISE = (1.0, 1.004, 0.997)
TITLES = {
    "1_a": "One request at a time: everybody waits.",
    "2_b": "On the loop: the same.",
    "3_c": "In a process pool: every core computes.",
    "4_d": "In threads: waiting is shared.",
}


def three_rounds(*servers: tuple[str, int, float], noise=NOISE, **environment) -> Result:
    """Servers (name, workers, speed) and the bare case in three rounds, each round as fast as the noise says."""
    records = [bare_record(round_, speed=factor) for round_, factor in zip(ROUNDS, noise, strict=True)]
    for place, (server, workers, speed) in enumerate(servers):
        for round_, factor in zip(ROUNDS, noise, strict=True):
            own = factor * (1 + 0.001 * ((place + round_) % 3))
            title = TITLES.get(server, "A title without the sign")
            record = record_of(server, round_, workers=workers, speed=speed * own, idle_answer_s=0.11, title=title)
            record.samples.cpu_s[:] = [value * 1.2 for value in record.samples.cpu_s]
            record.machine = None
            records.append(record)
    return result_of(records, **environment)


def with_pings(result: Result, waited_s: float, *servers: str) -> Result:
    for record in result.records:
        if record.server in servers:
            record.pings.waited_s[:] = [waited_s * (1 + 0.01 * record.round)] * 80
    return result


def test_ranks_are_shared_where_the_difference_is_noise() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.001), ("3_c", 2, 1.0), ("4_d", 1, 0.8))
    ranks = {case.server: case.rank for case in summarize(result).cases}
    assert ranks == {"3_c": 1, "1_a": 2, "2_b": 2, "4_d": 4}


def test_a_chain_of_cases_that_are_told_from_no_neighbour_has_no_single_rank() -> None:
    """A rank is shared with its fastest one, so that one case in the middle does not make equals of all."""
    rates = [Estimate(log, variance=0.001, degrees=30.0, round_variance=0.003) for log in (0.0, -0.1, -0.15, -0.9)]
    load = object()
    assert [differ(rates[0], one, 6) for one in rates] == [False, False, True, True]
    assert not differ(rates[1], rates[2], 6)
    assert ranks([load] * 4, rates) == [1, 1, 3, 4]
    shown = [rate.mean for rate in rates]
    assert leaders([load] * 4, rates, shown, MEASURES["rate_per_s"]) == [True, True, False, False]


def test_the_star_goes_to_all_that_can_not_be_told_from_the_best() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.001), ("3_c", 2, 1.0))
    with_pings(result, 0.4, "1_a")
    best = {case.server: set(case.best) for case in summarize(result).cases}
    assert "rate_per_s" in best["3_c"]
    assert "rate_per_s" not in best["1_a"] | best["2_b"]
    assert "memory_bytes" in best["1_a"] & best["2_b"]
    assert "ping_p99_s" in best["2_b"] & best["3_c"]
    assert "ping_p99_s" not in best["1_a"]
    assert not any("cpu_s_per_transaction" in of_case for of_case in best.values())  # all the same: nobody is best


def test_one_round_ranks_nothing_and_decides_nothing() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("3_c", 2, 1.0))
    result.records[:] = [record for record in result.records if record.round == 1]
    comparison = summarize(result)
    assert [case.rank for case in comparison.cases] == [None, None]
    assert [case.best for case in comparison.cases] == [[], []]
    assert conclusion(comparison)[0].startswith("What to take can't be decided: one round can't tell a difference")


def test_the_answer_comes_first_in_plain_names_with_what_would_change_it() -> None:
    result = with_pings(three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0), ("3_c", 2, 1.0)), 0.4, "1_a", "2_b")
    answer, figures = conclusion(summarize(result))
    assert answer == (
        "Take a process pool (3_c): nothing surely does more, "
        "and 99 of 100 pings of everybody else take at most 2.0 ms. "
        "If memory is short: the loop (2_b) takes 25 MB instead of 50 MB and does 50 % as much, "
        "but 99 of 100 pings take up to 412 ms."
    )
    assert figures == (
        "Process pool (3) is the fastest with 20.0/s, 100 % of what this machine can do at all; "
        "the next best, one request at a time (1), does 10.0/s. 99 of 100 pings take less than one task alone "
        "(100 ms) with process pool (3): 2.0 ms; with the others they take 412 ms. "
        "Of one request at a time (1) and loop (2) none can be told from the best of them."
    )
    for dress in ("table", "markdown"):
        assert dressed(result, dress).startswith("Take a process pool (3_c)")


def test_of_those_that_nothing_beats_short_pings_decide_and_then_memory() -> None:
    result = with_pings(three_rounds(("1_a", 2, 1.0), ("3_c", 2, 1.0), ("4_d", 2, 1.0)), 0.4, "1_a")
    for record in result.records:
        factor = {"1_a": 0.2, "3_c": 0.5}.get(record.server, 1.0)
        record.samples.memory_bytes[:] = [int(factor * size) for size in record.samples.memory_bytes]
    answer = conclusion(summarize(result))[0]
    assert answer.startswith("Take a process pool (3_c): nothing surely does more, and 99 of 100 pings of")
    assert (
        "If memory is short: one request at a time (1_a) takes 10 MB instead of 25 MB and does as much, but" in answer
    )


def test_where_the_fastest_block_everybody_that_is_said_with_who_does_not() -> None:
    result = with_pings(three_rounds(("1_a", 2, 1.0), ("4_d", 1, 1.0)), 0.4, "1_a")
    answer = conclusion(summarize(result))[0]
    assert answer.startswith("Take one request at a time (1_a): nothing surely does more. But 99 of 100 pings")
    assert "If nobody may wait: with threads (4_d) it is 2.0 ms, and it does 50 % as much." in answer


def test_a_title_without_a_colon_is_no_plain_name() -> None:
    answer = conclusion(summarize(three_rounds(("my_server", 2, 1.0), ("other", 1, 1.0))))[0]
    assert answer.startswith("Take my_server: nothing surely does more")


def test_the_conclusion_calls_a_tie_a_tie() -> None:
    _, figures = conclusion(summarize(three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0))))
    assert figures.startswith("No strategy is faster than another beyond the noise: all reach 10.0/s")


def test_the_conclusion_leaves_out_what_can_not_be_trusted() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0), ("3_c", 2, 41.0))
    told = conclusion(summarize(result))
    assert told[-1].endswith("Not compared, because suspect, unclear or failed: process pool (3).")
    assert "process pool" not in told[0]
    nothing = conclusion(summarize(three_rounds(("3_c", 2, 41.0))))
    assert nothing[0] == "What to take can't be decided: no case gave numbers that can be trusted."


@pytest.mark.usefixtures("undrawn")
def test_flags_name_what_differs_between_the_cases() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("3_c", 2, 41.0))
    more = three_rounds(("1_a", 1, 1.0), ("3_c", 2, 41.0))
    for record in more.records:
        record.values["task"] = "digest"
    result.records += more.records
    for dress in ("table", "markdown", "html"):
        text = " ".join(dressed(result, dress).split())
        assert any(names in text for names in ("3_c (primes), 3_c (digest): ", "3_c (digest), 3_c (primes): "))


@pytest.mark.parametrize("width", [60, 80, 100, 130, 200])
def test_no_figure_and_no_star_is_cut_at_any_width(width: int) -> None:
    import io

    from rich.console import Console

    from common.report.dresses.table import as_table

    result = with_pings(three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0), ("3_c", 2, 1.0)), 0.4, "1_a", "2_b")
    page = io.StringIO()
    Console(file=page, width=width, color_system=None).print(as_table(result))
    lines = page.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    wide = dressed(result, "table")
    assert page.getvalue().count(" *") == wide.count(" *")
    assert "…" not in page.getvalue()
    for figure in ("20.0 *", "10.0", "2.0 ms *", "412 ms", "25 MB *", "50 MB"):
        assert figure in page.getvalue()


def test_more_rounds_go_where_the_noise_is() -> None:
    calm = three_rounds(("1_a", 1, 1.0))
    assert uncertain(calm) == set()
    restless = three_rounds(("1_a", 1, 1.0), noise=(1.0, 1.2, 0.9))
    assert uncertain(restless) == {case_of("1_a", {"task": "primes", "users": 5, "python": "3.11.7"})}
    calm.records[:] = [record for record in calm.records if record.round < 3]
    assert uncertain(calm) == {case_of("1_a", {"task": "primes", "users": 5, "python": "3.11.7"})}


def test_the_task_alone_is_what_was_measured_around_the_cases() -> None:
    from common.report.figures.alone import alone_cpu_s, alone_wall_s

    result = three_rounds(("1_a", 1, 1.0))
    for record in result.records:
        record.alone_wall_s[:], record.alone_cpu_s[:] = [0.3, 0.2, 9.0], [0.1, 0.1, 0.1]
    comparison = summarize(result)
    work = comparison.cases[0].case.work
    assert work == (("task", "primes"), ("python", "3.11.7"))
    assert alone_wall_s(comparison.rounds_of(work)) == 0.3
    assert alone_cpu_s(comparison.rounds_of(work)) == 0.1
    assert alone_wall_s(comparison.rounds_of((("task", "digest"),))) is None
    assert TASK_S == 0.1
