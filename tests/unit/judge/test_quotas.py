"""CPU quotas of servers and of the bench, in simulated records."""

import pytest
from formatted import formatted
from simulated_record import CPUS, TIME_S, bare_record, record_of, result_of

from under_siege.judge.ranking import summarize
from under_siege.judge.requirement_check import judged
from under_siege.judge.round_statistics import Round
from under_siege.judge.speed_correction import other_work, stolen, taken_by_others
from under_siege.record.record import LimitUsage, Machine, Record
from under_siege.record.result import Required
from under_siege.report import view_of


def limited_record(throttled_periods: int, *, is_shared: bool = False, cpus: float = 0.5) -> Record:
    limits = LimitUsage(cpus=cpus, is_shared=is_shared, periods=40, throttled_periods=throttled_periods)
    return record_of("1_sync", limits=limits)


@pytest.mark.parametrize(("throttled_periods", "outcome", "exit_code"), [(30, "missed", 1), (0, "met", 0)])
def test_the_share_of_throttled_periods_is_a_requirement(throttled_periods: int, outcome: str, exit_code: int) -> None:
    result = result_of([bare_record(), limited_record(throttled_periods)])
    result.requirements[:] = [Required("throttled < 10%")]
    (case,) = summarize(result).cases
    assert case.throttled_pct == 100 * throttled_periods / 40
    assert [one.outcome for one in judged(summarize(result))] == [outcome]
    assert view_of(result).exit_code == exit_code


@pytest.mark.parametrize("throttled_periods", [40, 0])
def test_time_that_a_quota_takes_is_not_attributed_to_other_programs(throttled_periods: int) -> None:
    record = limited_record(throttled_periods, is_shared=True, cpus=1.5)
    record.machine = Machine(total_s=CPUS * TIME_S, busy_s=CPUS * TIME_S, steal_s=1.0)
    record.samples.cpu_s[:] = [0.6 * at_s for at_s in record.samples.at_s]
    record.samples.waited_s[:] = [0.3 * at_s for at_s in record.samples.at_s]  # for a CPU
    run = Round(record)
    assert other_work(run) > 0.2
    assert [share == 0 for share in (stolen(run), taken_by_others(run))] == [throttled_periods > 0] * 2


@pytest.mark.parametrize(("throttled_periods", "is_busy"), [(40, False), (0, True)])
def test_other_programs_do_not_disturb_a_server_whose_quota_is_used_up(throttled_periods: int, is_busy: bool) -> None:
    records = [bare_record(), limited_record(throttled_periods, is_shared=True)]
    for record in records:
        record.machine = Machine(total_s=16 * TIME_S, busy_s=12 * TIME_S, steal_s=0.0, idle_s=4 * TIME_S)
    (case,) = summarize(result_of(records)).cases
    assert ("busy_machine" in [reason.code for reason in case.reasons]) == is_busy


def test_a_quota_that_the_bench_shares_with_the_servers_is_noted() -> None:
    shared = result_of([bare_record(), limited_record(30, is_shared=True)], cpu_limit=0.5)
    assert "the servers share a quota of 0.5 CPU" in " ".join(formatted(shared, "table").split())
    assert "share a quota" not in formatted(result_of([bare_record(), limited_record(30)]), "table")
