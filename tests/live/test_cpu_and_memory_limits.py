"""Servers in cgroups with a CPU quota or a memory limit."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from command import invoke
from conftest import bench_command, wait_until

from under_siege.host.limits import Limits, limited
from under_siege.judge.round_statistics import cases_of
from under_siege.judge.speed_correction import other_work, stolen, taken_by_others
from under_siege.record.record import CaseFailedError
from under_siege.record.result import load

LEAK = """
from fastapi import FastAPI
app, kept = FastAPI(), []
@app.get("/")
def grow(): return {"kept": kept.append(bytearray(b"x" * 2_000_000))}
@app.get("/ping")
def ping(): return "pong"
"""


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


def test_a_quota_of_half_a_cpu_halves_the_rate_and_only_a_busy_server_is_throttled(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    with no_group_left():
        options = ["--cpus", "0.5", "--cpus", "1", "--time", "4s", "--rounds", "1", "--users", "4"]
        ran = invoke("run", "1", *options, "--task", "primes", "--quiet", "--out", str(out))
    cases = json.loads(invoke("report", str(out), "--format", "json").stdout)["cases"]
    half, whole = sorted(cases, key=lambda case: case["cpus"])
    assert (half["cpus"], whole["cpus"]) == (0.5, 1.0), ran.stderr
    rates = [case["rate_at_usual_speed_per_s"] or case["rate_per_s"]["mean"] for case in (half, whole)]
    assert rates[0] / rates[1] == pytest.approx(0.5, rel=0.25)  # of one round; the whole CPU may be slower for a while
    assert half["throttled_pct"] > 60
    assert half["of_ceiling"]["mean"] == pytest.approx(1, rel=0.25)  # the ceiling has the same quota
    records = json.loads(out.read_text())["records"]
    # A single busy thread pauses for half of each period.
    used_up = next(one for one in records if one["values"].get("cpus") == "0.5" and not one["is_ceiling"])
    assert used_up["limits"]["throttled_s"] / used_up["load_s"] == pytest.approx(0.5, abs=0.15)
    assert invoke("report", str(out), "--require", "throttled < 10%").returncode == 1


def test_a_bench_with_a_quota_of_its_own_reports_it_and_does_not_mistake_it_for_other_programs(tmp_path: Path) -> None:
    out, options = tmp_path / "r.json", ["--task", "primes", "--users", "4", "--time", "3s", "--rounds", "1"]
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with no_group_left(), limited(Limits(0.5)) as group:
            assert group is not None
            doctor, ran = (
                subprocess.run(group.command(bench_command(*words)), capture_output=True, text=True, check=False)
                for words in (["doctor"], ["run", "1", "3", *options, "--out", str(out)])
            )
    finally:
        other.kill()
        other.wait()
    assert "only 0.5 of " in doctor.stdout, doctor.stderr
    assert "only 0.5 CPU can be used" in doctor.stdout
    assert "the servers share a quota of 0.5 CPU with the load tool and the bench" in ran.stdout, ran.stderr
    assert " · 0.5 cores shared with the bench · " in " ".join(ran.stdout.split())
    assert "noisy neighbours took" not in ran.stdout
    result = load(out)
    assert {record.server: record.workers for record in result.records if not record.is_ceiling} == {
        "1_sync": 1,
        "3_async_threadexecutor": 5,  # as on a machine with one CPU
    }
    for run in itertools.chain(*cases_of(result.records)):  # the ceiling, too
        assert run.quota_of_the_bench == 0.5
        assert run.is_limited_by_its_quota()
        assert other_work(run) > 0.2
        assert (stolen(run), taken_by_others(run)) == (0.0, 0.0)


def test_a_server_beyond_its_memory_limit_fails_with_the_killed_process(tmp_path: Path) -> None:
    (tmp_path / "leak.py").write_text(LEAK)
    out = tmp_path / "r.json"
    with no_group_left():
        options = ["--memory", "120MB", "--time", "2s", "--rounds", "1", "--workers", "1"]
        ran = invoke("run", "leak:app", *options, "--quiet", "--out", str(out), folder=tmp_path)
    assert ran.returncode == 1
    records = json.loads(out.read_text())["records"]
    assert {record["failure"]["code"] for record in records} == {"out_of_memory"}
    assert "120 MB" in records[0]["failure"]["message"]


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_no_cgroup_is_left_after_a_signal(by: signal.Signals, tmp_path: Path) -> None:
    command = bench_command("run", "2", "--cpus", "0.5", "--time", "20s", "--rounds", "1", "--out", str(tmp_path / "r"))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: groups_of(process.pid))
        own = groups_of(process.pid)
        os.kill(process.pid, by)
        process.wait()
    wait_until(lambda: not own & groups().keys())
