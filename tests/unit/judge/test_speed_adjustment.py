"""Rates are adjusted for the CPU speed and for other programs, on simulated noisy machines.

tests/extended/test_noise_study.py counts how often reports are right.
"""

import json
from statistics import geometric_mean

import numpy as np
import pytest
from formatted import formatted
from noise_study import BESIDE_LIARS, DISHONEST, HONEST, studied
from noisy_machine import TASK_S, NoisyMachine, Server
from rows import places, set_waits
from simulated_record import bare_record, record_of, result_of
from simulated_results import SPEED_PROBE, add_beats

from under_siege.judge.cpu_speed_over_time import speeds_of
from under_siege.judge.ranking import summarize
from under_siege.judge.round_statistics import Round
from under_siege.judge.speed_correction import taken_by_others
from under_siege.record.record import Machine
from under_siege.record.requests import PING
from under_siege.report import view_of


def test_honest_servers_are_ok_and_dishonest_servers_are_suspect_on_a_noisy_machine() -> None:
    found = studied(range(2), "noisy", (*BESIDE_LIARS, *DISHONEST))
    assert set(found.verdicts) == {"ok"}
    assert found.undecided_runs == found.told_apart == 0
    assert found.found["20_percent_slower"] == 2
    assert 0.88 < np.mean(found.covered) <= 1
    assert {verdict for verdicts in found.of_dishonest.values() for verdict in verdicts} <= {"suspect", "unclear"}


def test_a_slower_speed_probe_during_sieges_does_not_make_honest_servers_suspect() -> None:
    """Halve only the speed of the probe; the first responses and the baseline runs came before the sieges."""
    result = NoisyMachine(1, "quiet").run(HONEST[1:3], rounds=2)
    for record in result.records:
        beats = record.speed_samples
        rows = zip(beats.at_s, beats.took_s, strict=True)
        beats.took_s[:] = [took_s * (2 if -0.1 < at_s < record.load_s + 0.1 else 1) for at_s, took_s in rows]
    assert {case.verdict for case in summarize(result).cases} == {"ok"}


def test_after_one_round_the_interval_of_a_rate_is_wider_if_other_programs_used_the_cpus() -> None:
    widths = []
    for other in (0.0, 0.25, 0.97):
        result = NoisyMachine(1, "quiet").run((Server("1_a", 2),), rounds=1)
        for record in result.records:
            total_s, busy_s = record.machine.total_s, record.machine.busy_s
            record.machine = Machine(total_s=total_s, busy_s=busy_s + other * total_s, steal_s=0, idle_s=0)
        rate = summarize(result).cases[0].rate_per_s
        widths.append(rate.high / rate.low)
    assert widths[0] < 1.5 < widths[1] < widths[2]


def test_io_bound_tasks_are_not_speed_adjusted() -> None:
    servers = (Server("1_a", waits_s=0.06), Server("2_b", waits_s=0.06, work=1.3))
    comparison = summarize(NoisyMachine(1).run(servers, rounds=2))
    for case in comparison.cases:
        assert case.rate_per_s.mean == pytest.approx(case.measured_per_s, rel=0.001)
    assert [case.rank for case in comparison.cases] == [1, 2]


def test_the_interval_of_a_rate_in_json_contains_its_mean_if_the_speed_changed() -> None:
    result = NoisyMachine(1).run(HONEST, rounds=2)
    cases = json.loads(formatted(result, "json"))["cases"]
    assert len(cases) == len(HONEST)
    for case in cases:
        rate = case["rate_per_s"]
        assert rate["low"] < rate["mean"] < rate["high"]
        assert rate["mean"] == pytest.approx(case["metrics"]["rate_per_s"]["value"], rel=1e-3)
        assert case["measured_per_s"] > 0
    assert any(case["measured_per_s"] != pytest.approx(case["rate_per_s"]["mean"], rel=0.01) for case in cases)


def test_the_speed_of_a_round_is_that_of_the_busy_cpus() -> None:
    record = NoisyMachine(1, "quiet").measure(Server("1_a"), 1)
    end_s = record.load_s
    record.speed_samples.took_s[:] = [0.001 if cpu == 0 else 0.002 for cpu in record.speed_samples.cpu]
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
    record.speed_samples.took_s[:] = [0.001] * len(record.speed_samples.took_s)
    before = speeds_of(record)
    record.speed_samples.took_s[201] = odd_s
    after = speeds_of(record)
    assert after.mean(0, 4) == pytest.approx(before.mean(0, 4), rel=0.02)
    assert after.highest(0, 4) == pytest.approx(before.highest(0, 4))


def test_results_without_a_speed_probe_are_not_speed_adjusted() -> None:
    result = NoisyMachine(1).run(HONEST[:3], rounds=2)
    for record in result.records:
        for column in (record.speed_samples.at_s, record.speed_samples.cpu, record.speed_samples.took_s):
            column.clear()
    comparison = summarize(result)
    for case, rounds in zip(comparison.cases, comparison.rounds, strict=True):
        assert case.speed is None
        assert case.rate_per_s.mean == pytest.approx(geometric_mean(run.rate.per_s for run in rounds))
        assert case.rate_per_s.low < case.rate_per_s.high


def test_the_mean_speed_of_a_short_siege_lies_between_its_extremes() -> None:
    record = NoisyMachine(1, "quiet").measure(Server("1_a"), 1)
    record.load_s = 1.1
    record.speed_samples.took_s[:] = [0.002 if 0.5 < at_s < 0.9 else 0.001 for at_s in record.speed_samples.at_s]
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


def test_notes_state_the_size_of_speed_variations_and_steal_time(golden) -> None:
    result = NoisyMachine(2).run(HONEST[:2], rounds=2)
    for record in result.records:
        record.machine = Machine(total_s=10, busy_s=5, steal_s=1.2, idle_s=3.8)
    golden(*notes_of(result))
    assert "ok" in {case.verdict for case in summarize(result).cases}


def notes_of(result) -> list[str]:
    return [note.text for note in view_of(result).notes]


def test_pings_sent_late_add_a_note_but_do_not_make_a_case_suspect(golden) -> None:
    records = [record for number in (1, 2) for record in (bare_record(number), record_of("1_a", number))]
    first = places(records[1].requests, PING)[0]
    records[1].requests.sent_s[first] = records[1].requests.due_s[first] + 0.5  # less than 1 % of all pings
    assert notes_of(result_of(records)) == []
    for record in records[1::2]:
        for index in places(record.requests, PING):
            record.requests.sent_s[index] = record.requests.due_s[index] + 0.05
        set_waits(record.requests, 0.06)
    golden(*notes_of(result_of(records)))
    assert "suspect" not in {case.verdict for case in summarize(result_of(records)).cases}


def test_the_simulated_task_has_its_nominal_duration() -> None:
    record = NoisyMachine(1, "quiet").measure(Server("1_a"), 1)
    assert np.mean(record.alone_cpu_s) == pytest.approx(TASK_S, rel=0.05)
    assert len(places(record.requests)) / record.load_s == pytest.approx(1 / TASK_S, rel=0.1)


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
        first = comparison.rounds[0][0]
        corrected[name] = comparison.correction.rounds[first].rate / first.rate.per_s
    assert corrected["computes"] == pytest.approx(1.5, rel=0.05)
    assert corrected["waits"] == pytest.approx(1.0, rel=0.01)
