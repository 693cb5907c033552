"""The monitors of a case, run as real processes: speed probe, lone task timer and resource usage."""

import asyncio
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from conftest import LIMIT_S, ROOT, SUPPORT, gone, wait_until

from under_siege.host import machine_speed
from under_siege.host.interpreter import interpreter
from under_siege.host.machine_speed import MOST_BASELINE_RUNS, lone_task_timer, speed_probe, watching_machine
from under_siege.host.managed_process import until
from under_siege.host.resource_usage import tree_usage, used_cpu_s
from under_siege.paths import script
from under_siege.record.record import Record
from under_siege.subprocess_scripts.cpu_speed_loop import sample


def new_record() -> Record:
    return Record(server="x", title="", values={"users": 1}, round=1, began_at="", load_average=0.0, time_s=1.0)


def test_the_speed_probe_samples_every_cpu_during_a_case_and_exits_after_the_run() -> None:
    record, cpus = new_record(), sorted(os.sched_getaffinity(0))

    async def listen() -> list[psutil.Process]:
        async with speed_probe() as ticking:
            async with ticking.beside(record):
                assert await until(lambda: min(record.speed_samples.cpu.count(cpu) for cpu in cpus) >= 10, LIMIT_S)
            family = psutil.Process().children(recursive=True)
            before = len(record.speed_samples.at_s)
            await asyncio.sleep(0.2)
            assert len(record.speed_samples.at_s) == before  # samples outside a case are dropped
        return family

    family = asyncio.run(listen())
    assert len(family) == 1 + len(cpus)  # the supervisor, and a process for each CPU
    assert all(gone(process) for process in family)
    for cpu in cpus:
        at_s = [at for at, of in zip(record.speed_samples.at_s, record.speed_samples.cpu, strict=True) if of == cpu]
        assert at_s == sorted(at_s)
        assert set(record.cpu_times.busy_s) == set(cpus)
    assert all(0 < took_s < 0.05 for took_s in record.speed_samples.took_s)
    assert abs(record.speed_samples.at_s[-1] - time.monotonic()) < 60  # the clock that the bench uses


def test_the_speed_probe_exits_when_its_output_is_closed() -> None:
    """The output is closed when the bench is killed."""
    ticking = subprocess.Popen([sys.executable, *script("cpu_speed_loop")], cwd=ROOT, stdout=subprocess.PIPE)
    assert ticking.stdout.readline()
    family = [psutil.Process(ticking.pid), *psutil.Process(ticking.pid).children()]
    ticking.stdout.close()
    wait_until(lambda: all(gone(process) for process in family))
    ticking.wait()


def test_speed_probe_samples_are_measured_in_cpu_time() -> None:
    began_s = time.thread_time()
    took_s = sample()
    assert 0 < took_s < time.thread_time() - began_s


def perform(task: str, times: int = 1, timeout_s: float = 20.0) -> Record:
    record = new_record()

    async def go() -> None:
        async with lone_task_timer(task, interpreter(), timeout_s) as alone:
            for _ in range(times):
                await alone.perform(record)

    asyncio.run(go())
    assert not psutil.Process().children()
    return record


def test_the_baseline_worker_measures_the_task_without_a_server() -> None:
    record = perform("primes", times=2)
    # On a busy machine, a call may complete only one run.
    assert 2 <= len(record.alone_wall_s) <= 2 * MOST_BASELINE_RUNS
    columns = (record.alone_at_s, record.alone_wall_s, record.alone_cpu_s, record.alone_on_cpu)
    assert len({len(column) for column in columns}) == 1
    assert record.alone_at_s == sorted(record.alone_at_s)
    assert set(record.alone_on_cpu) <= os.sched_getaffinity(0)
    for wall_s, cpu_s in zip(record.alone_wall_s, record.alone_cpu_s, strict=True):
        assert 0 < cpu_s <= wall_s


def test_baseline_runs_after_a_case_are_reused_before_the_next_case(monkeypatch) -> None:
    one, other = new_record(), new_record()
    monkeypatch.setattr(machine_speed, "REUSABLE_RUNS_S", LIMIT_S)

    async def go() -> float:
        async with speed_probe() as ticking, lone_task_timer("primes", interpreter(), LIMIT_S) as alone:
            async with ticking.beside(one, alone.fresh_since_s(one)):
                await alone.perform(one)  # these baseline runs precede the load
                assert alone.fresh_since_s(one) == math.inf
                before = len(one.alone_at_s)
                await alone.perform(one)  # these baseline runs follow the load
                since_s = one.alone_at_s[before]
                assert await until(lambda: one.speed_samples.at_s[-1:] > [since_s], LIMIT_S)
            async with ticking.beside(other, alone.fresh_since_s(other)):
                await alone.perform(other)
                assert other.alone_at_s == one.alone_at_s[before:]
                await alone.perform(other)
                assert other.alone_at_s[-1] > one.alone_at_s[-1]
            monkeypatch.setattr(machine_speed, "REUSABLE_RUNS_S", 0.0)
            assert alone.fresh_since_s(one) == math.inf
            return since_s

    since_s = asyncio.run(go())
    assert since_s <= other.speed_samples.at_s[0] <= max(at_s for at_s in one.speed_samples.at_s)
    assert len(set(zip(other.speed_samples.at_s, other.speed_samples.cpu, strict=True))) == len(
        other.speed_samples.at_s
    )


def test_a_long_task_has_one_baseline_run_before_and_one_after_a_case() -> None:
    assert len(perform("sign_up", times=2).alone_wall_s) == 2


def test_output_and_errors_of_the_task_are_not_recorded_as_baseline_runs(monkeypatch) -> None:
    monkeypatch.chdir(SUPPORT)
    told = perform("sample_tasks:prints").alone_wall_s
    assert told
    assert 9.0 not in told
    assert perform("sample_tasks:raises", times=2).alone_wall_s == []
    assert perform("no_such:task").alone_wall_s == []


def test_a_task_that_hangs_is_not_run_again(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(SUPPORT)
    begun = tmp_path / "begun"
    begun.touch()
    monkeypatch.setenv("BEGUN", str(begun))
    assert perform("sample_tasks:half_a_minute", times=3, timeout_s=2.0).alone_wall_s == []
    assert begun.read_text() in ("", "x")  # empty on a machine that needs 2 s to import the task


def test_the_cpu_time_of_a_process_has_a_resolution_finer_than_10_ms() -> None:
    command = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        process = psutil.Process(child.pid)
        child.stdout.readline()
        wait_until(lambda: process.status() == psutil.STATUS_SLEEPING)
        times = process.cpu_times()
        used_s = used_cpu_s(process)
        assert 0 <= used_s - (times.user + times.system) < 0.02
        assert used_s % 0.01 > 0
        child.kill()
    with pytest.raises(psutil.NoSuchProcess):
        used_cpu_s(process)


def test_the_cpu_time_of_a_process_includes_ended_child_processes() -> None:
    """This matters for servers that replace workers or start a process for each request."""
    before = tree_usage(os.getpid(), memory=False)
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True)
    assert tree_usage(os.getpid(), memory=False).cpu_s - before.cpu_s > 0.2


def test_cpu_use_of_other_programs_during_a_case_is_recorded() -> None:
    """Keep every CPU busy. test_verdict_rules.py tests the verdict on a busy machine."""
    record = new_record()

    async def watch() -> None:
        async with watching_machine(record):
            await asyncio.sleep(0.5)

    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in sorted(os.sched_getaffinity(0))]
    try:
        wait_until(lambda: all(psutil.Process(one.pid).cpu_times().user > 0.1 for one in burners))
        asyncio.run(watch())
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    machine = record.machine
    not_idle_s = machine.busy_s + machine.steal_s  # steal time is not idle time
    assert machine.busy_s > 0
    assert not_idle_s > 0.8 * machine.total_s * len(burners) / psutil.cpu_count()


def test_subprocess_scripts_import_no_large_third_party_packages() -> None:
    """The scripts run with the Python of the servers, which may lack all other packages."""
    modules = "from under_siege.subprocess_scripts import cpu_speed_loop, task_runs"
    script = f"import sys; {modules}; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-P", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "under_siege.subprocess_scripts.task_runs" in loaded.stdout.split()
    assert not {"numpy", "psutil", "aiohttp", "tornado", "flask", "msgspec"} & set(loaded.stdout.split())
