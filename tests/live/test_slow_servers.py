"""Slow servers: the bench waits for them until a timeout, and they do not affect other cases."""

import pytest
from bench_runs import MeasuredCase, run_servers, server_path
from leftover_processes import described, marking


@pytest.fixture(scope="module")
def measured_cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, MeasuredCase]:
    """Run all slow servers and a correct one, and check that no process is left behind."""
    servers = [server_path(name) for name in ("never_ready", "ignores_sigterm", "slow_to_start")]
    with marking() as left:
        found = run_servers(tmp_path_factory.mktemp("waiting"), [*servers, "2"])
        assert not described(left())
    return found


def test_the_bench_waits_for_a_server_that_starts_slowly(measured_cases: dict[str, MeasuredCase]) -> None:
    slow = measured_cases["slow_to_start"]
    assert slow.summary.verdict != "failed"
    assert slow.record.ready_s >= 2
    assert slow.summary.transactions > 0


def test_a_server_that_is_never_ready_times_out_after_15_s(measured_cases: dict[str, MeasuredCase]) -> None:
    never = measured_cases["never_ready"]
    assert never.code == "not_ready"
    assert "not ready within 15 s" in never.message
    assert 15 <= never.record.case_s < 60


def test_a_server_that_ignores_sigterm_is_killed_with_its_daemon(measured_cases: dict[str, MeasuredCase]) -> None:
    clinging = measured_cases["ignores_sigterm"]
    assert clinging.summary.verdict != "failed"
    assert 5 <= clinging.record.stop_s < 30
    assert clinging.record.failure is None  # its port is free again


def test_a_correct_server_does_not_fail_in_the_same_run_as_slow_servers(
    measured_cases: dict[str, MeasuredCase],
) -> None:
    correct = measured_cases["2_async"].summary
    assert correct.verdict != "failed", correct.reasons
    assert correct.transactions > 0
