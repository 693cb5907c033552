"""Reports on simulated servers of known rates: intervals and ranks are right, and only dishonest servers are suspect.

Seeds are fixed. These tests simulate only a few runs, so counts may differ from their expected values;
`scripts/study_noise.py` simulates hundreds of runs.
"""

import functools

import numpy as np
import pytest
from conftest import thorough
from noise_study import BESIDE_LIARS, DISHONEST, HONEST, Study, studied
from noisy_machine import TASK_S, NoisyMachine, Server
from simulated_record import bare_record, record_of, result_of
from simulated_results import SPEED_PROBE, add_beats

from under_siege.judge.cpu_speed_over_time import speeds_of
from under_siege.judge.ranking import summarize
from under_siege.judge.round_statistics import Round
from under_siege.judge.speed_correction import taken_by_others
from under_siege.measure.duration import LARGEST_BUDGET_S
from under_siege.record.record import Machine
from under_siege.report import formatted

RUNS = {"quiet": 6, "drifting": 8, "noisy": 12}


@functools.cache
def study(kind: str, servers: tuple[Server, ...] = HONEST, runs: int = 0) -> Study:
    """Simulate a study, but only once for all tests with this kind of machine and these servers."""
    return studied(range(runs or RUNS[kind]), kind, servers)


@pytest.mark.parametrize("kind", thorough(["quiet", "noisy", "drifting"], quick=("quiet", "noisy")))
def test_confidence_intervals_of_ratios_between_servers_contain_the_true_ratio(kind: str) -> None:
    # The intervals of a run share their noise; 400 runs give a coverage of 95 to 97 %.
    assert 0.88 < np.mean(study(kind).covered) <= 1


@pytest.mark.parametrize("kind", thorough(["quiet", "noisy", "drifting"], quick=("quiet", "noisy")))
def test_almost_all_honest_servers_get_the_verdict_ok_and_none_is_suspect(kind: str) -> None:
    verdicts = study(kind).verdicts
    assert verdicts["suspect"] == 0
    assert verdicts["ok"] >= 0.98 * verdicts.total()
    assert study(kind).undecided_runs == 0


def test_equal_servers_share_the_first_rank() -> None:
    assert study("noisy").told_apart <= 1
    assert study("quiet").told_apart == 0


def test_slower_servers_are_detected_on_a_noisy_machine() -> None:
    assert study("noisy").found["20_percent_slower"] >= RUNS["noisy"] - 1
    assert study("noisy").found["10_percent_slower"] >= RUNS["noisy"] / 2
    assert study("quiet").found["10_percent_slower"] == RUNS["quiet"]


def test_automatic_rounds_detect_a_20_percent_slower_server_within_the_time_limit() -> None:
    found = studied(range(4), rounds=None)
    assert found.found["20_percent_slower"] == 4
    assert found.undecided_runs == found.told_apart == 0
    assert max(found.seconds) < LARGEST_BUDGET_S + 15  # the last case may exceed the limit
    quiet = studied(range(1), "quiet", rounds=None)
    assert quiet.seconds[0] < 0.8 * LARGEST_BUDGET_S


def test_the_median_half_width_of_intervals_is_below_6_percent_on_a_noisy_machine_and_2_on_a_quiet_one() -> None:
    assert np.median(study("noisy").half_widths) < 0.06
    assert np.median(study("quiet").half_widths) < 0.02


@pytest.mark.parametrize("kind", thorough(["quiet", "noisy"], quick=("noisy",)))
def test_dishonest_servers_are_never_ok_and_honest_ones_never_suspect(kind: str) -> None:
    found = study(kind, (*BESIDE_LIARS, *DISHONEST), runs=6)
    assert set(found.of_dishonest) == {one.name for one in DISHONEST}
    for name, verdicts in found.of_dishonest.items():
        assert verdicts["ok"] == 0, name
        assert verdicts["suspect"] >= 4, name
    assert found.verdicts["suspect"] == 0


SHIFTED = tuple(one for one in HONEST if one.name in ("2_async", "3_threads", "4_pool"))


def test_no_server_is_falsely_accused_if_the_task_alone_ran_at_another_speed_than_the_sieges() -> None:
    """In about half of these runs, the speed probe sees too little of the difference to explain it."""
    honest = studied(range(24), "shifting", SHIFTED)
    assert honest.verdicts["suspect"] == 0
    assert honest.verdicts["ok"] >= 0.95 * honest.verdicts.total()
    found = studied(range(8), "shifting", (*SHIFTED, *DISHONEST))
    assert found.verdicts["suspect"] == 0
    for name, verdicts in found.of_dishonest.items():
        assert verdicts["ok"] == 0, name


def test_a_slower_speed_probe_during_sieges_does_not_make_honest_servers_suspect() -> None:
    """Halve only the speed of the probe; the first responses and the baseline runs came before the sieges."""
    result = NoisyMachine(1, "quiet").run(SHIFTED, rounds=2)
    for record in result.records:
        beats = record.beats
        rows = zip(beats.at_s, beats.took_s, strict=True)
        beats.took_s[:] = [took_s * (2 if -0.1 < at_s < record.load_s + 0.1 else 1) for at_s, took_s in rows]
    assert {case.verdict for case in summarize(result).cases} == {"ok"}


@pytest.mark.parametrize(("other", "is_ranked"), [(0.0, True), (0.25, False), (0.97, False)])
def test_one_round_ranks_nothing_if_other_programs_used_half_of_a_cpu(other: float, is_ranked: bool) -> None:
    """Simulate three servers on two CPUs, one of them 2.1 times as fast as the others, and vary the other work."""
    servers = (Server("1_a", 2), Server("2_b", 2, work=2.1), Server("3_c", 2, work=2.1))
    result = NoisyMachine(1, "quiet").run(servers, rounds=1)
    for record in result.records:
        total_s = record.machine.total_s
        record.machine = Machine(total_s=total_s, busy_s=record.machine.busy_s + other * total_s, steal_s=0, idle_s=0)
    text = " ".join(formatted(result, "table").split())
    assert ("Slower: servers " in text) == is_ranked
    assert ("times as fast" in text) == is_ranked


def test_io_bound_tasks_are_not_speed_adjusted() -> None:
    servers = (Server("1_a", waits_s=0.06), Server("2_b", waits_s=0.06, work=1.3))
    comparison = summarize(NoisyMachine(1).run(servers, rounds=2))
    for case in comparison.cases:
        assert case.rate_at_usual_speed_per_s is None
    assert [case.rank for case in comparison.cases] == [1, 2]


def test_a_single_round_ranks_servers_with_half_the_throughput_lower() -> None:
    comparison = summarize(NoisyMachine(3).run(HONEST, rounds=1))
    first = {case.server for case in comparison.cases if case.rank == 1}
    assert "4_pool" in first
    assert not first & {one.name for one in HONEST if one.workers == 1}


def test_the_effect_of_a_busy_sibling_cpu_is_not_corrected() -> None:
    """If two busy CPUs slow each other down to 62 %, a server on one CPU reaches 81 % of the ceiling."""
    shares = []
    for seed in range(6):
        machine = NoisyMachine(seed, "quiet", beside_a_busy_cpu=0.62)
        comparison = summarize(machine.run((Server("1_a"), Server("2_b", 2)), rounds=3))
        shares.append(comparison.cases[0].of_ceiling.mean / (1 / 1.24))
    assert np.mean(shares) == pytest.approx(1, abs=0.05)


def test_the_speed_of_a_round_is_that_of_the_busy_cpus() -> None:
    record = NoisyMachine(1, "quiet").measure(Server("1_a"), 1)
    end_s = record.load_s
    record.beats.took_s[:] = [0.001 if cpu == 0 else 0.002 for cpu in record.beats.cpu]
    record.cpu_times.busy_s[0] = list(record.cpu_times.at_s)
    record.cpu_times.busy_s[1] = [0.0] * len(record.cpu_times.at_s)
    speeds = speeds_of(record)
    assert speeds.mean(0, end_s) == pytest.approx(1000, rel=0.02)
    assert speeds.highest(0, end_s) == pytest.approx(1000)
    assert speeds.at(2.0, 1) == pytest.approx(500)
    assert speeds.load_beside(0, end_s) == pytest.approx(0, abs=0.05)
    assert np.diff(speeds.clock(1000.0)(np.array([1.0, 2.0]))) == pytest.approx(1, rel=0.02)
    assert np.diff(speeds.clock(500.0, 0.0)(np.array([1.0, 2.0]))) == pytest.approx(1)
    record.cpu_times.busy_s.clear()  # without these times, all CPUs have the same weight
    assert speeds_of(record).mean(0, end_s) == pytest.approx(750, rel=0.01)


@pytest.mark.parametrize("odd_s", [0.1, 0.0])
def test_a_single_outlier_of_the_speed_probe_has_little_effect_on_the_speed_of_a_round(odd_s: float) -> None:
    record = NoisyMachine(1, "quiet").measure(Server("1_a"), 1)
    record.beats.took_s[:] = [0.001] * len(record.beats.took_s)
    before = speeds_of(record)
    record.beats.took_s[201] = odd_s
    after = speeds_of(record)
    assert after.mean(0, 4) == pytest.approx(before.mean(0, 4), rel=0.02)
    assert after.highest(0, 4) == pytest.approx(before.highest(0, 4))


def test_results_without_a_speed_probe_are_not_speed_adjusted() -> None:
    result = NoisyMachine(1).run(HONEST[:3], rounds=2)
    for record in result.records:
        for column in (record.beats.at_s, record.beats.cpu, record.beats.took_s):
            column.clear()
    for case in summarize(result).cases:
        assert (case.speed, case.rate_at_usual_speed_per_s) == (None, None)
        assert case.rate_per_s.low < case.rate_per_s.high


def test_the_mean_speed_of_a_short_siege_lies_between_its_extremes() -> None:
    record = NoisyMachine(1, "quiet").measure(Server("1_a"), 1)
    record.load_s = 1.1
    record.beats.took_s[:] = [0.002 if 0.5 < at_s < 0.9 else 0.001 for at_s in record.beats.at_s]
    one = Round(record)
    lowest, highest = one.lowest_and_highest
    assert lowest <= one.speed <= highest


def disturbed(used: float, waited: float, other: float, processes: int) -> Round:
    """Return a 1 s round on two CPUs, with the CPU seconds that a server used and waited for, and that others used."""
    record = record_of("1_a", workers=6, load_s=1.0)
    record.samples.at_s[:], record.samples.cpu_s[:] = [0.0, 1.0], [0.0, used]
    record.samples.waited_s[:] = [0.0, waited]
    record.samples.processes[:] = [processes] * 2
    record.machine = Machine(total_s=2, busy_s=used + other + 0.12, steal_s=0, idle_s=max(0, 2 - used - other - 0.12))
    return Round(record)


@pytest.mark.parametrize(
    ("used", "waited", "other", "processes", "lost"),
    [
        (1.0, 0.0, 1.0, 1, 0.0),  # another program has the other CPU
        (1.33, 0.67, 0.67, 3, 0.33),  # two workers and another program share two CPUs
        (1.9, 2.0, 0.0, 5, 0.0),  # four workers share two otherwise idle CPUs
        (0.67, 0.33, 1.33, 1, 0.33),  # one thread and two other programs
        (0.75, 1.05, 1.2, 1, 0.25),  # six threads that share a GIL, and two other programs
        (0.75, 5.0, 1.2, 1, 0.61),  # six threads whose task releases the GIL
    ],
)
def test_lost_cpu_time_is_the_time_threads_waited_while_other_programs_ran(
    used: float, waited: float, other: float, processes: int, lost: float
) -> None:
    assert taken_by_others(disturbed(used, waited, other, processes)) == pytest.approx(lost, abs=0.02)


def test_notes_state_the_size_of_speed_variations_and_steal_time() -> None:
    result = NoisyMachine(2).run(HONEST[:2], rounds=2)
    for record in result.records:
        record.machine = Machine(total_s=10, busy_s=5, steal_s=1.2, idle_s=3.8)
    text = " ".join(formatted(result, "table").split())
    assert "CPU speed varied by up to 1." in text
    assert "noisy neighbours took up to 12 % of CPU time in 6 of 6 rounds" in text
    assert "ok" in {case.verdict for case in summarize(result).cases}


def test_fewer_than_1_percent_of_late_pings_in_all_rounds_add_no_note() -> None:
    records = [record for number in (1, 2) for record in (bare_record(number), record_of("1_a", number))]
    records[1].pings.sent_s[0] = records[1].pings.due_s[0] + 0.5  # more than 1 % of the pings of this round
    assert "of pings at least" not in formatted(result_of(records), "table")


def test_pings_sent_late_add_a_note_but_do_not_make_a_case_suspect() -> None:
    records = [bare_record(), record_of("1_a")]
    records[1].pings.sent_s[:] = [at_s + 0.05 for at_s in records[1].pings.due_s]
    records[1].pings.waited_s[:] = [0.06] * len(records[1].pings.due_s)
    result = result_of(records)
    assert "the bench sent 1 % of pings at least 50 ms late" in " ".join(formatted(result, "table").split())
    assert "suspect" not in {case.verdict for case in summarize(result).cases}


def test_the_simulated_task_has_its_nominal_duration() -> None:
    record = NoisyMachine(1, "quiet").measure(Server("1_a"), 1)
    assert np.mean(record.alone_cpu_s) == pytest.approx(TASK_S, rel=0.05)
    assert len(record.transactions.took_s) / record.load_s == pytest.approx(1 / TASK_S, rel=0.1)


def test_a_task_that_waits_only_for_a_cpu_is_treated_as_cpu_bound() -> None:
    """Check that rates of CPU-bound tasks are corrected for other programs, and rates of I/O-bound tasks are not."""
    corrected = {}
    for name, cpu_s in (("computes", [TASK_S] * 3), ("waits", [TASK_S / 100] * 3)):
        records = [record_of("1_a", round_, workers=1) for round_ in (1, 2)]
        for record in records:
            record.samples.processes[:] = [1] * len(record.samples.at_s)
            record.samples.waited_s[:] = [at_s / 3 for at_s in record.samples.at_s]
            record.machine = Machine(total_s=2 * record.load_s, busy_s=2 * record.load_s, steal_s=0, idle_s=0)
            record.alone_wall_s[:], record.alone_cpu_s[:] = [2 * TASK_S, TASK_S, 3 * TASK_S], cpu_s
            record.samples.cpu_s[:] = [at_s * 2 / 3 for at_s in record.samples.at_s]
            add_beats(record, 1.0, 1, np.random.default_rng(record.round))
        comparison = summarize(result_of(records, speed_probe=SPEED_PROBE))
        corrected[name] = comparison.correction.rate(comparison.rounds[0][0]) / comparison.rounds[0][0].rate.per_s
    assert corrected["computes"] == pytest.approx(1.5, rel=0.05)
    assert corrected["waits"] == pytest.approx(1.0, rel=0.01)
