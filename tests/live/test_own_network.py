"""A network of its own for the load, so that it has all local ports."""

import subprocess
import sys
from pathlib import Path

import pytest
from bench_runs import run_once
from conftest import ROOT
from load_tool_checks import arrived_in_load, needed, skip_version_lookup
from scripted_server import received, write_suite

from under_siege.host import ports
from under_siege.judge.ranking import summarize

NETWORK, REQUESTS = Path("/proc/thread-self/ns/net"), 200


def test_a_private_network_has_separate_local_ports_and_gets_the_given_number_of_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed("ab")
    skip_version_lookup(monkeypatch)
    before = NETWORK.readlink()
    load = f'tool = "ab"\nusers = 4\nrequests = {REQUESTS}\nkeep_alive = true\nown_network = true'
    result, ran = run_once(tmp_path, str(write_suite(tmp_path, "/slow/0.005", load)))
    assert NETWORK.readlink() == before
    (record,), (case,) = result.records, summarize(result).cases
    assert case.transactions == REQUESTS, case.reasons
    sent = [one for one in arrived_in_load(record, received(tmp_path)) if not one["bench"]]
    assert 0 <= len(sent) - REQUESTS <= len(record.requests.only("check"))  # which are replays of ab's requests
    assert not any(record.requests.only("ping").problem)
    if "own_network is not allowed" in " ".join(ran.stderr.split()):
        pytest.skip("a network namespace is not allowed here; the run continued without one")
    assert record.ports.taken[0] < 50


def descriptors() -> set[str]:
    """Return the open file descriptors of this process, including that of the listing itself."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_a_run_without_permission_for_a_private_network_continues_with_one_warning(monkeypatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(ports, "_call", forbidden)
    warnings, before = list[str](), descriptors()
    with ports.own_network(warnings.append) as is_own:
        assert not is_own
    assert descriptors() == before
    (warning,) = warnings
    assert "own_network" in warning


def test_a_network_whose_interface_is_down_causes_a_one_line_error() -> None:
    ports.check_loopback()
    script = "from under_siege.cli import bench; bench()"
    command = ["unshare", "-rn", sys.executable, "-c", script, "run", "2", "--rounds", "1"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "unshare" in ran.stderr:
        pytest.skip(ran.stderr)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1), ran.stderr
    assert "ip link set lo up" in ran.stderr
