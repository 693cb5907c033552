"""Ranks, the conclusion, and enough rounds."""

from simulated_record import bare_record, record_of, result_of

from common.report.certainty import uncertain
from common.report.conclusion import conclusion
from common.report.summary import summarize

ROUNDS = (1, 2, 3)
NOISE = (1.0, 1.004, 0.997)


def three_rounds(*servers: tuple[str, int, float], noise=NOISE, **environment):
    """Servers (name, workers, speed) and the bare case in three rounds, each round as fast as the noise says."""
    records = [bare_record(round_, speed=factor) for round_, factor in zip(ROUNDS, noise, strict=True)]
    for server, workers, speed in servers:
        for round_, factor in zip(ROUNDS, noise, strict=True):
            record = record_of(server, round_, workers=workers, speed=speed * factor, idle_answer_s=0.11)
            record.samples.cpu_s[:] = [value * 1.2 for value in record.samples.cpu_s]
            record.machine = None
            records.append(record)
    return result_of(records, **environment)


def test_ranks_are_shared_where_the_difference_is_noise() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.001), ("3_c", 2, 1.0), ("4_d", 1, 0.8))
    ranks = {case.server: case.rank for case in summarize(result).cases}
    assert ranks == {"3_c": 1, "1_a": 2, "2_b": 2, "4_d": 4}


def test_one_round_ranks_nothing() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("3_c", 2, 1.0))
    result.records[:] = [record for record in result.records if record.round == 1]
    assert [case.rank for case in summarize(result).cases] == [None, None]
    assert "One round can't tell a difference from noise" in conclusion(summarize(result))[0]


def test_the_conclusion_says_who_is_fastest_what_pings_take_and_what_is_undecided() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0), ("3_c", 2, 1.0))
    for record in result.records:
        if record.server in ("1_a", "2_b"):
            record.pings.waited_s[:] = [0.4] * 80
    (text,) = conclusion(summarize(result))
    assert text == (
        "3_c is the fastest with 20.0/s, 100 % of what this machine can do at all, 2.00 times the next best. "
        "Pings stay below the 100 ms that one task takes (p99) with 3_c (2.0 ms); with the others they take 400 ms. "
        "The fastest takes 50 MB of memory, the others 25 MB. "
        "Which of 1_a or 2_b does more could not be decided."
    )


def test_the_conclusion_calls_a_tie_a_tie() -> None:
    (text,) = conclusion(summarize(three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0))))
    assert text.startswith("No strategy is faster than another beyond the noise: all reach about 10.0/s")


def test_the_conclusion_leaves_out_what_can_not_be_trusted() -> None:
    result = three_rounds(("1_a", 1, 1.0), ("2_b", 1, 1.0), ("3_liar", 2, 41.0))
    (text,) = conclusion(summarize(result))
    assert text.endswith("Not compared, because suspect or failed: 3_liar.")
    assert "3_liar is the fastest" not in text


def test_more_rounds_go_where_the_noise_is() -> None:
    calm = three_rounds(("1_a", 1, 1.0))
    assert uncertain(calm) == set()
    restless = three_rounds(("1_a", 1, 1.0), noise=(1.0, 1.2, 0.9))
    assert uncertain(restless) == {("1_a", "primes", 5, "3.11.7")}
    calm.records[:] = [record for record in calm.records if record.round < 3]
    assert uncertain(calm) == {("1_a", "primes", 5, "3.11.7")}
