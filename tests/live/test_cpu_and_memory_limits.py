"""Servers in cgroups with a CPU quota or a memory limit, and a bench that is limited itself."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from command import invoke
from conftest import WAITING, bench_command, wait_until
from scripted_server import write_suite

from under_siege.capacity.step_metrics import StepMetrics
from under_siege.host.limits import Limits, limited
from under_siege.record.record import OUT_OF_MEMORY, CaseFailedError
from under_siege.record.result import load

FEW = ("--time", "1s", "--rounds", "1", "--users", "2", "--quiet", "--out", "r.json")


@pytest.fixture(autouse=True)
def _cgroups() -> None:
    try:
        with limited(Limits(0.5, 10**8)):
            pass
    except CaseFailedError as error:
        pytest.skip(str(error))


def groups() -> dict[Path, set[int]]:
    """Return the cgroups of all benches that are running now, with the ids of their processes."""
    found = {}
    for path in Path("/sys/fs/cgroup").rglob("under-siege-*"):
        with contextlib.suppress(OSError):
            found[path] = set(map(int, (path / "cgroup.procs").read_text().split()))
    return found


@contextlib.contextmanager
def no_group_left() -> Iterator[None]:
    """Wait until no new cgroup without processes is left; other tests may use cgroups at the same time."""
    before = groups()
    yield
    wait_until(lambda: all(groups().get(path) or path in before for path in groups()))


def groups_of(pid: int) -> set[Path]:
    """Return the cgroups that contain descendants of this process."""
    with contextlib.suppress(psutil.Error):
        family = {child.pid for child in psutil.Process(pid).children(recursive=True)}
        return {path for path, inside in groups().items() if inside & family}
    return set()


def test_the_server_and_the_ceiling_run_with_the_cpu_quota(tmp_path: Path) -> None:
    with no_group_left():
        ran = invoke("run", "1", "--cpus", "0.5", *WAITING, *FEW, folder=tmp_path)
    records = load(tmp_path / "r.json").records
    assert [record.failure for record in records] == [None, None], ran.stderr
    assert {record.is_ceiling for record in records} == {True, False}
    for record in records:
        assert record.limits is not None
        assert record.limits.cpus == 0.5
        assert record.limits.periods > 0
        assert not record.limits.is_shared


def test_a_capacity_search_knows_how_often_a_server_was_throttled(tmp_path: Path) -> None:
    words = ("--cpus", "0.2", "--goal", "throttled < 99%", "--time", "4s", "--out", "r.json", "--quiet")
    with no_group_left():
        ran = invoke("capacity", "2", *words, folder=tmp_path)
    siege = load(tmp_path / "r.json").steps[0]
    assert (siege.record.failure, siege.closed_users > 0) == (None, True), ran.stderr
    assert (StepMetrics(siege).value("throttled_pct") or 0.0) > 0


def test_a_bench_with_a_quota_of_its_own_records_it_for_every_case(tmp_path: Path) -> None:
    with no_group_left(), limited(Limits(0.5)) as group:
        assert group is not None
        command = group.command(bench_command("run", "3", *WAITING, *FEW))
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    result = load(tmp_path / "r.json")
    assert result.environment.cpu_limit == 0.5, ran.stderr
    assert {record.server: record.workers for record in result.records if not record.is_ceiling} == {
        "3_async_threadexecutor": 5,  # as on a machine with one CPU
    }
    assert [(record.limits.cpus, record.limits.is_shared) for record in result.records] == [(0.5, True)] * 2


def test_a_server_beyond_its_memory_limit_fails_with_the_killed_process(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, "/keep/10000000")
    with no_group_left():
        ran = invoke("run", str(suite), "--memory", "100MB", *FEW, folder=tmp_path)
    (record,) = load(tmp_path / "r.json").records
    assert (ran.returncode, record.failure.code) == (1, OUT_OF_MEMORY)
    assert "100 MB" in record.failure.message


def test_no_cgroup_is_left_when_the_bench_is_killed(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, "/slow/0.1")
    command = bench_command("run", str(suite), "--cpus", "0.5", "--time", "60s", "--out", str(tmp_path / "r.json"))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            own = wait_until(lambda: groups_of(process.pid), 100)
        finally:
            os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not own & groups().keys())
