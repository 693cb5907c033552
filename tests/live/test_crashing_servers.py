"""A crash is reported with the last output of the server, no matter which request detects the crash."""

import shutil

import pytest
from bench_runs import SERVERS_DIRECTORY, MeasuredCase, run_servers, server_path

from under_siege.load.siege import Siege
from under_siege.record.requests import CORRECT, LOAD

# The last line of each server, and whether the load begins before it crashes (None: depends on the machine). The bench
# sends its first request as a warm-up, its second under load, and its third as the final check.
CRASHES = {
    "crashes_at_startup": ("no database at db:5432", False),
    "crashes_in_warm_up": ("no licence any more", False),
    "crashes-1-slowly": ("no database at db:5432", False),
    "crashes_under_load": ("Segmentation fault", True),
    "crashes_after_a_second": ("no licence any more", None),
    "crashes-2-slowly": ("no database at db:5432", True),
    "crashes-3-suddenly": ("no database at db:5432", True),
}


@pytest.fixture(scope="module")
def measured_cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, MeasuredCase]:
    """Run all crashing servers, without replayed requests.

    Some of the servers crash only on requests that do not look like those of siege.
    """
    folder = tmp_path_factory.mktemp("dying")
    shutil.copy(SERVERS_DIRECTORY / "minimal_server.py", folder)  # the other servers import it
    copies = {name: "crashes_on_request" for name in CRASHES if "-" in name}
    for name, original in {**copies, "crashes_in_warm_up": "crashes_after_a_second"}.items():
        shutil.copy(server_path(original), folder / f"{name}.py")
    servers = [f"{name}.py" if (folder / f"{name}.py").exists() else server_path(name) for name in CRASHES]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Siege, "is_replayed", False)
        return run_servers(folder, servers)


@pytest.mark.parametrize("name", CRASHES)
def test_a_crash_is_reported_with_the_last_server_output(name: str, measured_cases: dict[str, MeasuredCase]) -> None:
    dead, (last_line, is_loaded) = measured_cases[name], CRASHES[name]
    assert (dead.summary.verdict, dead.summary.rate_per_s, dead.code) == ("failed", None, "died")
    assert f"its last line: {last_line}" in dead.message
    assert is_loaded in (None, bool(dead.record.tool_command))


def test_responses_before_a_crash_are_kept(measured_cases: dict[str, MeasuredCase]) -> None:
    answers = measured_cases["crashes_under_load"].record.requests.only(LOAD).outcome
    assert 0 < answers.count(CORRECT) <= 2
