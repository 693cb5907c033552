"""Two results side by side: what is called better or worse, against simulations whose truth is known."""

import io
import json

import msgspec
import numpy as np
import pytest
from rich.console import Console
from simulated_record import CPUS, TASK_S, TIME_S, bare_record, record_of, result_of

from common.alone import metronome
from common.errors import BadInputError
from common.model.case import case_of
from common.model.record import Failure, Result, save
from common.report.dresses.compare_dresses import as_json, as_markdown, as_table
from common.report.figures.estimates import Estimate, estimates
from common.report.figures.holm import holm
from common.report.figures.scale import between
from common.report.figures.weather import Weather
from common.report.judging.comparable import check_comparable
from common.report.judging.compare import FIGURES, Change, Compared, Pair, compared, judged
from common.report.judging.comparison import summarize
from common.report.judging.summary import Interval, Latency, Summary
from common.report.words.columns import FIGURES as COLUMNS
from common.report.words.compare_sheet import percent, sheet_of

ROUNDS = (1, 2, 3)
ALARMS = 22  # of 300: 5 %, and two standard deviations
USUAL = 0.01  # noise of rounds: the standard deviation, relative
METRONOME = "3.11.7 500+1500"
BEAT_S = 1e-4


def a_result(*servers: tuple[str, int, float], seed=1, noise=USUAL, speeds=None, waits=False, **environment) -> Result:
    """Servers (name, workers, how fast beside what they should be) and the bare case in three rounds.

    Args:
        speeds: of the machine in each round; the metronome beats accordingly. Without them there is none.
        waits: whether the task waits, and its rate has nothing to do with the speed.
    """
    rng = np.random.default_rng(seed)
    records = []
    for round_, speed in zip(ROUNDS, speeds or (1.0,) * len(ROUNDS), strict=True):
        for server, workers, quality in (("bare", CPUS, 1.0), *servers):
            record = a_record(server, round_, workers, quality * float(np.exp(rng.normal(0, noise))), speed, waits)
            if server != "bare":
                vary(record, rng, noise)
            if speeds:
                add_beats(record, speed, workers, rng)
            records.append(record)
    return result_of(records, **({"metronome": METRONOME} | environment))


def a_record(server, round_, workers, quality, speed, waits):
    rate = quality if waits else quality * speed
    computes = 0.01 if waits else 1.0  # of the time of the task
    make = bare_record if server == "bare" else record_of
    record = make(round_, speed=rate) if server == "bare" else make(server, round_, workers=workers, speed=rate)
    record.machine, record.idle_answer_s = None, None if server == "bare" else TASK_S / min(1.0, rate) + 0.02
    took_s = TASK_S if waits else TASK_S / speed
    record.alone_at_s[:] = [-0.5, -0.3, TIME_S]
    record.alone_on_cpu[:] = [0, 0, 0]
    record.alone_wall_s[:] = [took_s] * 3
    record.alone_cpu_s[:] = [TASK_S * computes / speed] * 3
    used = rate if waits else quality  # a second of a slower CPU is a second of it
    record.samples.cpu_s[:] = [
        1 + workers * at_s * computes / speed * used * (speed if not waits else 1) for at_s in record.samples.at_s
    ]
    return record


def vary(record, rng, noise) -> None:
    """Pings and memory are no more exact than the rest."""
    record.pings.waited_s[:] = [value * float(np.exp(rng.normal(0, 3 * noise))) for value in record.pings.waited_s]
    factor = np.exp(rng.normal(0, noise))
    record.samples.memory_bytes[:] = [int(size * factor) for size in record.samples.memory_bytes]


def add_beats(record, speed, workers, rng) -> None:
    for at_s in np.arange(-1, TIME_S + 1, 0.05).tolist():
        for cpu in range(CPUS):
            record.beats.at_s.append(at_s)
            record.beats.cpu.append(cpu)
            record.beats.took_s.append(BEAT_S / speed * float(np.exp(rng.normal(0, 0.01))))
    record.cpu_times.at_s[:] = np.arange(-1, TIME_S + 1, 0.25).tolist()
    for cpu in range(CPUS):
        record.cpu_times.busy_s[cpu] = [at_s * workers / CPUS for at_s in record.cpu_times.at_s]


def as_text(found: Compared, width=130) -> str:
    page = io.StringIO()
    Console(file=page, width=width, color_system=None).print(as_table(found))
    return page.getvalue()


def judgements(found: Compared) -> dict[str, dict[str, str | None]]:
    return {case.case.server: {one.figure.name: one.judgement for one in case.changes} for case in found.cases}


def by_server(found: Compared) -> dict[str, str]:
    return {case.case.server: case.judgement for case in found.cases}


def test_holm_steps_down_and_stops_at_the_first_that_is_not_sure() -> None:
    steps = holm([0.03, 0.01, 0.04, 0.005], 0.05)  # the example of many textbooks
    assert [step.adjusted for step in steps] == pytest.approx([0.06, 0.03, 0.06, 0.02])
    assert [step.level for step in steps] == pytest.approx([0.025, 0.05 / 3, 0.025, 0.0125])
    assert holm([], 0.05) == []


def simulated(rng, cases: int, changes: dict[tuple[int, int], float], noise: float | None = None) -> list[Pair]:
    """Both sides of so many cases, every figure with a noise of its own, and what really changed."""
    summary = Summary(
        server="",
        title="",
        task="primes",
        users=5,
        workers=1,
        python="3.11.7",
        rounds=3,
        rate_per_s=Interval(1.0),
        ping_s=Latency(1.0, 1.0, 1.0, 1.0),
        cpu_s_per_transaction=1.0,
        memory_bytes=1,
    )
    ratios = []
    for figure in range(len(FIGURES)):
        sizes = [noise or float(np.exp(rng.uniform(np.log(0.003), np.log(0.2)))) for _ in range(cases)]
        truth = [(0.0, size) for size in sizes] + [
            (changes.get((place, figure), 0.0), size) for place, size in enumerate(sizes)
        ]
        found = estimates([np.exp(rng.normal(mean, size, len(ROUNDS))).tolist() for mean, size in truth])
        both = zip(found[:cases], found[cases:], strict=True)
        ratios.append([between(base, len(ROUNDS), new, len(ROUNDS)) for base, new in both])
    return judged(
        [
            Pair(
                case_of(f"{place}_x", {"task": "primes", "users": 5}),
                summary,
                summary,
                tuple(
                    Change(figure, summary, summary, ratio[place], is_judged=True)
                    for figure, ratio in zip(FIGURES, ratios, strict=True)
                ),
            )
            for place in range(cases)
        ]
    )


@pytest.mark.parametrize("noise", [None, 0.03, 0.3], ids=["noise of all sizes", "some noise", "much noise"])
@pytest.mark.parametrize("cases", [1, 5])
def test_where_nothing_changed_seldom_anything_is_called_better_or_worse(cases, noise) -> None:
    rng = np.random.default_rng(20261120 + cases)
    alarms = sum(
        any(case.judgement in ("better", "worse") for case in simulated(rng, cases, {}, noise)) for _ in range(300)
    )
    assert alarms <= ALARMS


def test_a_change_of_a_tenth_is_found_and_is_the_only_one() -> None:
    rng = np.random.default_rng(7)
    found = others = 0
    for _ in range(100):
        cases = simulated(rng, 5, {(2, 0): np.log(0.9)}, USUAL)
        found += cases[2].judgement == "worse"
        others += any(case.judgement != "no difference" for place, case in enumerate(cases) if place != 2)
    assert found >= 95
    assert others <= 5


def test_what_is_as_large_as_the_smallest_visible_change_is_found_in_half_of_all_cases() -> None:
    rng = np.random.default_rng(8)
    sizes = [simulated(rng, 3, {}, 0.05)[0].changes[0].smallest_visible for _ in range(50)]
    truth = float(np.log1p(np.median(sizes)))
    found = sum(simulated(rng, 3, {(0, 0): truth}, 0.05)[0].changes[0].judgement == "better" for _ in range(200))
    assert 60 <= found <= 140


SERVERS = (("1_a", 1, 1.0), ("3_c", 2, 1.0))
STEADY, WILD = (1.0, 1.0, 1.0), (1.2, 0.9, 1.0)
SLOW = 1 / 1.4


def slower(speeds):
    return tuple(SLOW * speed for speed in reversed(speeds))


@pytest.mark.parametrize("waits", [False, True], ids=["computes", "waits"])
@pytest.mark.parametrize("speeds", [STEADY, WILD], ids=["steady", "wild"])
def test_a_slow_day_makes_nothing_worse(speeds, waits) -> None:
    base = a_result(*SERVERS, seed=1, speeds=speeds, waits=waits)
    new = a_result(*SERVERS, seed=2, speeds=slower(speeds), waits=waits)
    for found in (compared(base, new), compared(new, base)):
        assert found.has_common_speed
        assert {case.judgement for case in found.cases} == {"no difference"}
        assert found.exit_code == 0
        (rate, *_) = found.cases[0].changes
        assert abs(rate.fraction) < 0.05
        if not waits:
            assert rate.values[0] / rate.values[1] == pytest.approx(1.4 if found.base is base else SLOW, rel=0.1)
            assert "times as fast now as before; as far as a figure follows that" in as_text(found, 1000)


@pytest.mark.parametrize("waits", [False, True], ids=["computes", "waits"])
def test_what_got_worse_on_a_slow_day_is_still_found(waits) -> None:
    base = a_result(*SERVERS, seed=1, speeds=WILD, waits=waits)
    new = a_result(("1_a", 1, 0.7), ("3_c", 2, 1.0), seed=2, speeds=slower(WILD), waits=waits)
    found = judgements(compared(base, new))
    assert found["1_a"]["rate_per_s"] == "worse"
    assert found["3_c"]["rate_per_s"] == "no difference"


@pytest.mark.parametrize("factor", [1.4, 2.2])
def test_pings_that_may_wait_for_slow_tasks_have_the_benefit_of_the_doubt(factor) -> None:
    base = a_result(*SERVERS, seed=1, speeds=STEADY)
    new = a_result(*SERVERS, seed=2, speeds=slower(STEADY))
    for record in new.records:
        record.pings.waited_s[:] = [factor * wait for wait in record.pings.waited_s]
    ping = compared(base, new).cases[0].changes[1]
    assert ping.fraction == pytest.approx(factor - 1, rel=0.1)
    assert ping.judgement == ("worse" if factor == 2.2 else "no difference")


def test_what_is_no_more_than_the_noise_of_the_beats_is_not_taken_out() -> None:
    base = a_result(*SERVERS, seed=1, speeds=STEADY, noise=1e-4)
    new = a_result(*SERVERS, seed=2, speeds=(1.01,) * 3, waits=True, noise=1e-4)
    new.records[:] = [
        msgspec.structs.replace(record, beats=other.beats)
        for record, other in zip(base.records, new.records, strict=True)
    ]
    for case in compared(base, new).cases:
        assert case.speed_ratio == pytest.approx(1.01, abs=0.003)
        assert case.changes[0].fraction == pytest.approx(0, abs=0.001)


def test_days_of_all_kinds_make_no_more_false_alarms_than_others() -> None:
    rng = np.random.default_rng(5)
    alarms = 0
    for number in range(30):
        days = [np.exp(rng.normal(0, 0.2) + rng.normal(0, 0.12, len(ROUNDS))).tolist() for _ in range(2)]
        pair = [a_result(*SERVERS, seed=100 * number + day, speeds=speeds) for day, speeds in enumerate(days)]
        alarms += bool({"better", "worse"} & set(by_server(compared(*pair)).values()))
    assert alarms <= 4  # 5 %, and two standard deviations


OTHERS = ({"metronome": "3.14.0 500+1500"}, {"metronome": ""}, {"cpu_model": "another CPU"})


@pytest.mark.parametrize("other", OTHERS, ids=["other work", "unknown", "other CPU"])
def test_beats_of_another_metronome_are_not_compared(other) -> None:
    base = a_result(*SERVERS, seed=1, speeds=STEADY)
    found = compared(base, a_result(*SERVERS, seed=2, speeds=slower(STEADY), **other))
    assert not found.has_common_speed
    assert by_server(found) == {"1_a": "worse", "3_c": "worse"}
    assert "How fast the machine was can't be compared" in as_text(found)


def test_beats_of_two_metronomes_that_nobody_knows_are_not_compared() -> None:
    result = a_result(*SERVERS, seed=1, speeds=STEADY, metronome="")
    assert not compared(result, result).has_common_speed


def test_results_without_beats_are_compared_as_they_are() -> None:
    found = compared(a_result(*SERVERS, seed=1), a_result(*SERVERS, seed=2, speeds=STEADY))
    assert not found.has_common_speed
    assert by_server(found) == {"1_a": "no difference", "3_c": "no difference"}


def test_another_day_is_not_taken_for_the_load_that_servers_make() -> None:
    """On the fast day nearly all servers left a CPU idle, on the slow one hardly any."""
    idle, busy = ("1_a", "2_b", "4_d", "5_e"), ("3_c", "6_f", "7_g")
    base = summarize(a_result(*((name, 1, 1.0) for name in idle), speeds=STEADY))
    new = summarize(a_result(("1_a", 1, 1.0), *((name, 2, 1.0) for name in busy), seed=2, speeds=slower(STEADY)))
    weather = Weather([*base.ceiling_rounds, *base.rounds], beside=[*new.ceiling_rounds, *new.rounds])
    (bare,), (server, *_) = base.ceiling_rounds, base.rounds
    assert weather.speed(bare[0]) == pytest.approx(weather.speed(server[0]), rel=0.01)


def test_the_rounds_of_both_results_count() -> None:
    """Degrees of freedom: those of Welch where they are more, and none where either side has a single round."""
    sure, unsure, single = (
        Estimate(0.0, variance, degrees, variance) for variance, degrees in ((1, 2), (4, 2), (1, 0))
    )
    assert between(sure, 3, sure, 3).degrees == pytest.approx(4)
    assert between(sure, 3, unsure, 3).degrees == pytest.approx(25 / (1 / 2 + 16 / 2))
    assert between(sure, 3, single, 1).degrees == 0


def test_the_environment_says_which_metronome_it_was() -> None:
    import platform

    from common.harness.ready.environment import describe_environment

    assert describe_environment("4.0.7", []).metronome == f"{platform.python_version()} {metronome.WORK}"


def test_nothing_changed_between_a_result_and_itself() -> None:
    result = a_result(*SERVERS)
    found = compared(result, result)
    assert found.exit_code == 0
    assert {one.fraction for case in found.cases for one in case.changes} == {0.0}
    assert as_text(found).startswith("Nothing changed by more than noise.")
    assert "worse" not in as_text(found).replace("better and worse", "")


def test_slower_is_worse_and_faster_is_better() -> None:
    base, new = a_result(*SERVERS, seed=1), a_result(("1_a", 1, 0.8), ("3_c", 2, 1.0), seed=2)
    found = compared(base, new)
    assert judgements(found)["1_a"]["rate_per_s"] == "worse"
    assert judgements(found)["3_c"]["rate_per_s"] == "no difference"
    assert found.exit_code == 1
    assert as_text(found).startswith("Worse: 1_a (trans/s). No difference beyond noise: 1 of 2.")
    back = compared(new, base)
    assert judgements(back)["1_a"]["rate_per_s"] == "better"
    assert by_server(back) == {"1_a": "better", "3_c": "no difference"}
    assert back.exit_code == 0


def test_more_memory_and_longer_pings_are_worse() -> None:
    base, new = a_result(("1_a", 1, 1.0), seed=1), a_result(("1_a", 1, 1.0), seed=2)
    for record in new.records:
        record.pings.waited_s[:] = [2.0 * wait for wait in record.pings.waited_s]
        record.samples.memory_bytes[:] = [2 * size for size in record.samples.memory_bytes]
    found = judgements(compared(base, new))["1_a"]
    assert found == {
        "rate_per_s": "no difference",
        "ping_p99_s": "worse",
        "cpu_s_per_transaction": "no difference",
        "memory_bytes": "worse",
    }


def test_a_change_that_is_sure_but_smaller_than_our_accuracy_is_none() -> None:
    base, new = (a_result(("1_a", 1, speed), noise=1e-5) for speed in (1.0, 1.01))
    (case,) = compared(base, new).cases
    assert case.changes[0].step.adjusted < 0.05
    assert case.changes[0].judgement == "no difference"


def of_several(python, quality):
    """The same server with one Python, one task and one number of users."""
    result = a_result(("1_a", 1, quality))
    for record in result.records:
        record.values["python"] = python
    return result.records


def test_a_case_is_the_same_one_only_if_every_axis_is_the_same() -> None:
    base = result_of(of_several("3.11.7", 1.0) + of_several("3.14.0", 1.0))
    new = result_of(of_several("3.11.7", 0.5) + of_several("3.14.0", 1.0))
    found = compared(base, new)
    assert {case.case.python: case.judgement for case in found.cases} == {
        "3.11.7": "worse",
        "3.14.0": "no difference",
    }
    assert "Worse: 1_a (Python 3.11.7) (trans/s" in as_text(found)
    one = summarize(new).cases[0]
    for name, value in (("server", "2_b"), ("task", "digest"), ("users", 6), ("python", "3"), ("parameters", {"n": 1})):
        assert msgspec.structs.replace(one, **{name: value}).case != one.case
    assert msgspec.structs.replace(one, rounds=9, title="another").case == one.case


def test_the_case_of_another_python_is_another_case() -> None:
    found = compared(result_of(of_several("3.11.7", 1.0)), result_of(of_several("3.12.0", 1.0)))
    assert {case.case.python: case.judgement for case in found.cases} == {"3.12.0": "new", "3.11.7": "gone"}
    assert found.exit_code == 1
    assert "1_a (Python 3.11.7): was not measured now" in as_text(found)
    assert "1_a (Python 3.12.0): was not measured before" in as_text(found)


def failing(result: Result, server: str) -> Result:
    for record in result.records:
        if record.server == server and record.round == 2:
            record.failure = Failure("died", "the server died")
    return result


def suspicious(result: Result, server: str) -> Result:
    """Some answers were errors."""
    for record in result.records:
        if record.server == server:
            record.transactions.status[5:8] = [500] * 3
    return result


def test_what_fails_now_or_is_gone_is_worse_and_a_new_one_is_not() -> None:
    both = a_result(("1_a", 1, 1.0), ("2_b", 1, 1.0))
    one = a_result(("1_a", 1, 1.0))
    gone, appeared, failed = (
        compared(both, one),
        compared(one, both),
        compared(both, failing(a_result(*SERVERS), "1_a")),
    )
    assert (by_server(gone), gone.exit_code) == ({"1_a": "no difference", "2_b": "gone"}, 1)
    assert (by_server(appeared), appeared.exit_code) == ({"1_a": "no difference", "2_b": "new"}, 0)
    assert (by_server(failed)["1_a"], failed.exit_code) == ("failed", 1)
    assert "1_a: failed now: round 2: the server died" in as_text(failed)
    assert by_server(compared(failing(a_result(("1_a", 1, 1.0)), "1_a"), one)) == {"1_a": "better"}


def test_what_failed_before_and_after_fails_and_what_failed_before_is_not_gone() -> None:
    failed = failing(a_result(("1_a", 1, 1.0), ("2_b", 1, 1.0)), "2_b")
    found = compared(failed, failed)
    assert (by_server(found)["2_b"], found.exit_code) == ("failed", 1)
    assert "2_b: failed before and now: round 2: the server died" in as_text(found)
    without = compared(failed, a_result(("1_a", 1, 1.0)))
    assert (by_server(without)["2_b"], without.exit_code) == ("undecided", 3)


@pytest.mark.parametrize("factor", [0.5, 2.0])
@pytest.mark.parametrize("suspect_now", [True, False])
def test_what_is_suspect_is_never_better_nor_worse(suspect_now, factor) -> None:
    base, new = a_result(("1_a", 1, 1.0), ("2_b", 1, 1.0)), a_result(("1_a", 1, factor), ("2_b", 1, 1.0), seed=2)
    suspicious(new if suspect_now else base, "1_a")
    found = compared(base, new)
    assert (found.cases[0].base.verdict, found.cases[0].new.verdict) == (
        ("ok", "suspect") if suspect_now else ("suspect", "ok")
    )
    assert set(judgements(found)["1_a"].values()) == {None}
    assert by_server(found)["1_a"] == "undecided"
    assert found.exit_code == 3
    line = next(line for line in as_text(found).splitlines() if line.startswith("1_a "))
    assert "%)" in line  # what changed is shown
    assert "better" not in line
    assert "worse" not in line
    assert ("ok → suspect" if suspect_now else "suspect → ok") in line
    assert f"1_a: suspect {'now' if suspect_now else 'before'}: " in as_text(found)


def test_a_new_case_that_is_suspect_or_failed_is_not_passed_over() -> None:
    base, servers = a_result(("1_a", 1, 1.0)), (("1_a", 1, 1.0), ("2_b", 1, 1.0))
    assert compared(base, suspicious(a_result(*servers), "2_b")).exit_code == 3
    assert compared(base, failing(a_result(*servers), "2_b")).exit_code == 1


def one_round(result: Result) -> Result:
    result.records[:] = [record for record in result.records if record.round == 1]
    return result


def test_one_round_decides_nothing() -> None:
    base = a_result(("1_a", 1, 1.0))
    for new in (one_round(a_result(("1_a", 1, 1.0))), one_round(a_result(("1_a", 1, 0.2)))):
        found = compared(base, new)
        assert set(judgements(found)["1_a"].values()) == {"undecided"}
        assert found.exit_code == 3
        assert {change.smallest_visible for change in found.cases[0].changes} == {None}
        assert "One round can't tell a change from noise" in as_text(found)


def test_worse_counts_more_than_undecided() -> None:
    base = a_result(("1_a", 1, 1.0), ("2_b", 1, 1.0))
    new = suspicious(a_result(("1_a", 1, 0.5), ("2_b", 1, 1.0)), "2_b")
    assert compared(base, new).exit_code == 1


def test_shown_figures_are_those_of_the_tables() -> None:
    base, new = a_result(*SERVERS, seed=1, noise=0.05), a_result(*SERVERS, seed=2, noise=0.05)
    tables = [{case.server: case for case in summarize(result).cases} for result in (base, new)]
    sheet = sheet_of(compared(base, new))
    for line in sheet.lines:
        for heading, cell in zip(sheet.figures, line.figures, strict=True):
            column = next(column for column in COLUMNS if column.name == heading)
            before, now = (column.text(table[line.names[0]]) for table in tables)
            assert cell.text.startswith(f"{before} → {now} (")


def test_a_missing_figure_leaves_its_column_where_it_is() -> None:
    base, new = a_result(*SERVERS, seed=1), a_result(*SERVERS, seed=2)
    for record in (*base.records, *new.records):
        if record.server == "1_a":
            for column in (record.pings.due_s, record.pings.sent_s, record.pings.waited_s, record.pings.problem):
                column.clear()
    found = compared(base, new)
    first, second = as_markdown(found).splitlines()[4:6]
    assert first.split("|")[1].strip() == "1_a"
    assert first.split("|")[3].strip() == ""
    assert "MB" in first.split("|")[5]
    assert [len(line.split("|")) for line in (first, second)] == [7, 7]
    assert judgements(found)["1_a"]["ping_p99_s"] is None
    assert found.exit_code == 0
    back = compared(base, a_result(*SERVERS, seed=2))
    assert judgements(back)["1_a"]["ping_p99_s"] == "undecided"
    assert back.exit_code == 3


def test_memory_of_another_kind_is_not_compared() -> None:
    base, new = a_result(("1_a", 1, 1.0), seed=1), a_result(("1_a", 1, 1.0), seed=2)
    for record in new.records:
        record.memory_kind = "rss" if record.memory_kind else ""
    found = compared(base, new)
    assert judgements(found)["1_a"]["memory_bytes"] == "undecided"
    assert "1_a: its memory was PSS before and is RSS now" in as_text(found)


def test_other_workers_are_said() -> None:
    found = compared(a_result(("3_c", 2, 1.0)), a_result(("3_c", 1, 1.0)))
    assert "3_c: had 2 workers before and 1 now" in as_text(found)


def test_the_smallest_change_that_could_have_been_seen_grows_with_the_noise() -> None:
    calm, restless = (
        compared(*(a_result(*SERVERS, seed=seed, noise=noise) for seed in (1, 2))) for noise in (0.003, 0.03)
    )
    sizes = [[case.changes[0].smallest_visible for case in found.cases] for found in (calm, restless)]
    assert 0.02 <= min(sizes[0]) <= max(sizes[0]) < 0.04 < min(sizes[1])
    assert next(line for line in as_text(calm).splitlines() if line.startswith("could have seen")).count("%") >= 4


def test_a_figure_in_which_a_doubling_could_hide_is_named() -> None:
    result = a_result(("1_a", 1, 1.0))
    for record in result.records:
        record.pings.waited_s[:] = [0.001 * 10**record.round] * len(record.pings.waited_s)
    found = compared(result, result)
    assert found.cases[0].changes[1].smallest_visible > 1
    assert "Not even a doubling of ping p99 could have been seen: 1_a." in as_text(found)


@pytest.mark.parametrize("anyway", [False, True])
def test_other_tasks_and_users_are_refused_whatever_is_asked(anyway) -> None:
    base, other = a_result(("1_a", 1, 1.0)), a_result(("1_a", 1, 1.0), cpu_model="another CPU")
    for record in other.records:
        record.values["task"] = "digest"
    with pytest.raises(BadInputError, match=r"different tasks \(primes and digest\); measure") as caught:
        check_comparable(base, other, anyway=anyway)
    assert "--anyway" not in str(caught.value)
    more = result_of(base.records + other.records)
    with pytest.raises(BadInputError, match=r"different tasks \(digest, primes and primes\)"):
        check_comparable(more, base, anyway=anyway)
    users = a_result(("1_a", 1, 1.0))
    for record in users.records:
        record.values["users"] = 50
    with pytest.raises(BadInputError, match=r"different users \(5 and 50\)"):
        check_comparable(base, users, anyway=anyway)
    with pytest.raises(BadInputError, match="nothing was measured in the second one"):
        check_comparable(base, result_of([]), anyway=anyway)


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"cpu_model": "another CPU"}, r"different CPUs \(a CPU and another CPU\); --anyway"),
        ({"usable_cpus": 4}, r"different numbers of CPUs \(2 and 4\); --anyway"),
        ({"memory_bytes": 16_000_000_000}, r"different sizes of memory \(8.0 GB and 16.0 GB\); --anyway"),
    ],
)
def test_other_machines_are_refused_unless_told_to(environment, told) -> None:
    base, other = a_result(("1_a", 1, 1.0)), a_result(("1_a", 1, 1.0), **environment)
    with pytest.raises(BadInputError, match=told):
        check_comparable(base, other, anyway=False)
    check_comparable(base, other, anyway=True)
    assert as_text(compared(base, other)).startswith("Compared although they were measured with different ")
    assert as_markdown(compared(base, other)).startswith("**Compared although")


def test_some_pages_of_memory_are_no_other_machine() -> None:
    base = a_result(("1_a", 1, 1.0))
    check_comparable(base, a_result(("1_a", 1, 1.0), memory_bytes=8_000_004_096), anyway=False)
    assert not as_text(compared(base, a_result(("1_a", 1, 1.0), memory_bytes=8_000_004_096))).startswith("Compared")


def test_json_says_all_of_it() -> None:
    base = a_result(("1_a", 1, 1.0), ("2_b", 1, 1.0), ("4_d", 1, 1.0), seed=1)
    new = suspicious(a_result(("1_a", 1, 0.5), ("2_b", 1, 1.0), seed=2), "2_b")
    told = json.loads(as_json(compared(base, new)))
    assert set(told) == {"schema", "base", "new", "judgement", "exit_code", "has_common_speed", "cases"}
    assert set(told["base"]) == {"schema", "command", "began_at", "environment"}
    assert (told["judgement"], told["exit_code"]) == ("gone", 1)
    one, suspect, gone = told["cases"]
    assert {name: one[name] for name in ("server", "task", "users", "python", "parameters", "judgement")} == {
        "server": "1_a",
        "task": "primes",
        "users": 5,
        "python": "3.11.7",
        "parameters": {},
        "judgement": "worse",
    }
    assert set(one["figures"]) == {figure.name for figure in FIGURES}
    rate = one["figures"]["rate_per_s"]
    assert set(rate) == {"base", "new", "change", "low", "high", "p", "smallest_visible", "judgement"}
    assert rate["low"] < rate["change"] < rate["high"] < 0
    assert rate["change"] == pytest.approx(-0.5, abs=0.03)
    assert rate["new"] == pytest.approx(summarize(new).cases[0].rate_per_s.mean)
    assert rate["p"] < 0.05
    assert (one["before"]["verdict"], suspect["now"]["verdict"]) == ("ok", "suspect")
    assert suspect["now"]["reasons"][0]["code"]
    assert suspect["figures"]["rate_per_s"]["judgement"] is suspect["figures"]["rate_per_s"]["p"] is None
    assert suspect["figures"]["rate_per_s"]["change"] is not None
    assert (gone["judgement"], gone["now"], gone["figures"]["rate_per_s"]["new"]) == ("gone", None, None)


def test_markdown_and_table_say_the_same() -> None:
    base, new = a_result(*SERVERS, seed=1), a_result(("1_a", 1, 0.5), ("3_c", 2, 1.0), seed=2)
    found = compared(base, new)
    markdown, sheet = as_markdown(found), sheet_of(found)
    for line in sheet.lines:
        row = next(row for row in markdown.splitlines() if row.startswith(f"| {line.names[0]} |"))
        shown = as_text(found)
        for cell in line.figures:
            assert cell.text in row
            assert cell.text in shown
    assert markdown.count("worse**") == 1


def test_a_narrow_terminal_cuts_nothing() -> None:
    found = compared(a_result(*SERVERS, seed=1), a_result(*SERVERS, seed=2))
    narrow = as_text(found, width=60)
    for line in sheet_of(found).lines:
        assert all(cell.text in narrow for cell in line.figures)
    assert narrow.count("1_a ") == len(FIGURES)


def test_percents() -> None:
    assert [percent(value) for value in (-0.5, -0.001, 0.034, 9.5)] == ["-50 %", "+0 %", "+3 %", "+950 %"]


def test_compare_as_it_is_called(bench, tmp_path) -> None:
    save(a_result(*SERVERS, seed=1), tmp_path / "base.json")
    save(a_result(("1_a", 1, 0.5), ("3_c", 2, 1.0), seed=2), tmp_path / "worse.json")
    save(suspicious(a_result(*SERVERS, seed=2), "1_a"), tmp_path / "suspect.json")
    save(a_result(*SERVERS, seed=2, memory_bytes=10**9), tmp_path / "other.json")
    assert bench("compare", "base.json", "base.json").returncode == 0
    worse = bench("compare", "base.json", "worse.json", "--format", "json")
    assert (worse.returncode, json.loads(worse.stdout)["exit_code"]) == (1, 1)
    assert bench("compare", "base.json", "suspect.json").returncode == 3
    refused = bench("compare", "base.json", "other.json", "--format", "markdown")
    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1)
    told = bench("compare", "base.json", "other.json", "--format", "markdown", "--anyway")
    assert told.stdout.startswith("**Compared although they were measured with different sizes of memory")
