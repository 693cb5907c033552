"""A crash is reported with the last output of the server, no matter which request detects the crash."""

import shutil

import pytest
from bench_runs import SERVERS_DIRECTORY, MeasuredCase, run_servers, server_path

from under_siege.load.siege import Siege

CRASHES = ("crashes-1-suddenly", "crashes-1-slowly", "crashes-2-slowly", "crashes-3-suddenly")


@pytest.fixture(scope="module")
def measured_cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, MeasuredCase]:
    """Run all crashing servers and a healthy one, without replayed requests.

    Some of the servers crash only on requests that do not look like those of siege.
    """
    folder = tmp_path_factory.mktemp("dying")
    shutil.copy(SERVERS_DIRECTORY / "minimal_server.py", folder)  # the other servers import it
    for crash in CRASHES:
        shutil.copy(SERVERS_DIRECTORY / "crashes_on_request.py", folder / f"{crash}.py")
    shutil.copy(SERVERS_DIRECTORY / "crashes_after_a_second.py", folder / "crashes_in_warm_up.py")
    servers = [server_path(name) for name in ("crashes_at_startup", "crashes_under_load", "crashes_after_a_second")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Siege, "is_replayed", False)
        return run_servers(folder, [*servers, *(f"{crash}.py" for crash in ("crashes_in_warm_up", *CRASHES)), "2"])


def test_a_crash_at_startup_is_reported_immediately_with_the_last_server_output(
    measured_cases: dict[str, MeasuredCase],
) -> None:
    dead = measured_cases["crashes_at_startup"]
    assert (dead.summary.verdict, dead.summary.rate_per_s) == ("failed", None)
    assert dead.code == "died"
    assert "exit code 1" in dead.message
    assert "its last line: no database at db:5432" in dead.message
    assert dead.record.case_s < 12  # less than the readiness timeout of 15 s


def test_a_crash_under_load_fails_the_case_but_earlier_responses_are_kept(
    measured_cases: dict[str, MeasuredCase],
) -> None:
    dead = measured_cases["crashes_under_load"]
    assert dead.summary.verdict == "failed"
    assert "its last line: Segmentation fault" in dead.message
    assert 0 < len(dead.record.transactions.status) <= 2


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_during_a_request_is_reported_with_the_last_server_output(
    crash: str, measured_cases: dict[str, MeasuredCase]
) -> None:
    """The bench sends its first request as a warm-up, its second under load, and its third as the final check."""
    dead = measured_cases[crash]
    assert dead.code == "died"
    assert "ended with exit code 1" in dead.message
    assert "its last line: no database at db:5432" in dead.message
    assert bool(dead.record.tool_command) == ("-1-" not in crash)


def test_a_crash_between_requests_is_reported_with_the_last_server_output(
    measured_cases: dict[str, MeasuredCase],
) -> None:
    assert measured_cases["crashes_after_a_second"].code == "died"
    assert "its last line: no licence any more" in measured_cases["crashes_after_a_second"].message


def test_a_crash_during_the_warm_up_is_reported_with_the_last_server_output(
    measured_cases: dict[str, MeasuredCase],
) -> None:
    dead = measured_cases["crashes_in_warm_up"]
    assert dead.code == "died"
    assert "its last line: no licence any more" in dead.message
    assert not dead.record.tool_command


def test_a_healthy_server_does_not_fail_in_the_same_run_as_crashing_servers(
    measured_cases: dict[str, MeasuredCase],
) -> None:
    assert measured_cases["2_async"].summary.verdict != "failed"
    assert measured_cases["2_async"].summary.transactions > 0
