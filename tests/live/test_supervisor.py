"""The supervisor: neither servers with daemons nor killed benches leave processes or files behind."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from conftest import ROOT, SUPPORT, TESTS, WAITING, bench_command, gone, is_free, wait_until
from leftover_processes import commands
from plans import plan_of

from under_siege.host import supervisor_client
from under_siege.host.managed_process import ManagedProcess, offspring
from under_siege.host.supervisor_client import SUPERVISOR, another_supervisor, current_supervisor
from under_siege.paths import script, server_environment

HIDES = TESTS / "servers" / "starts_a_daemon.py"
LONG = ("--rounds", "1", "--time", "60s", "--users", "2", *WAITING)
DAEMON = "import time; time.sleep(600)"


@pytest.fixture
def daemon_pid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the path of the file to which the daemon writes its process id; kill the daemon at the end."""
    path = tmp_path / "daemon.pid"
    monkeypatch.setenv("DAEMON_PID", str(path))
    yield path
    if path.exists() and path.read_text():
        try:
            os.kill(int(path.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            return


def daemon(path: Path) -> psutil.Process | None:
    """Return the daemon, or None if it has not started yet."""
    return psutil.Process(int(path.read_text())) if path.exists() and path.read_text() else None


def started(*words: str) -> ManagedProcess:
    return ManagedProcess([sys.executable, *words], environment=server_environment())


def test_a_daemon_without_environment_variables_ends_when_the_server_is_stopped(daemon_pid: Path) -> None:
    server = started(str(HIDES), "--port", "0")
    hidden = wait_until(lambda: daemon(daemon_pid))
    assert os.getsid(hidden.pid) != os.getsid(server.pid)
    asyncio.run(server.stop())
    assert gone(hidden)


def test_stopping_a_process_without_daemons_also_ends_its_child_processes() -> None:
    """The child has no environment variables, and another supervised process keeps running."""
    words = ["sh", "-c", "trap 'exit 3' TERM; env -i sleep 600 & echo $!; wait"]
    other = ManagedProcess(["sleep", "600"], environment=os.environ)
    first = ManagedProcess(words, environment=os.environ, may_hide=False)
    child_pid = int(first.stdout.readline())
    asyncio.run(first.stop())
    assert first.reap() == 3  # its SIGTERM handler ran
    wait_until(lambda: gone_pid(child_pid))
    asyncio.run(other.stop())


def test_semaphores_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    stubborn = started("-c", script_with_semaphore(tmp_path))
    semaphore = semaphore_path(tmp_path)
    asyncio.run(stubborn.stop(grace_s=0.0))
    assert not semaphore.exists()


def test_semaphores_are_removed_after_the_bench_is_killed(tmp_path: Path) -> None:
    words = [sys.executable, "-c", script_with_semaphore(tmp_path)]
    imports = "import os; from under_siege.host.managed_process import ManagedProcess"
    start = f"{imports}; ManagedProcess({words!r}, environment=os.environ)"
    with subprocess.Popen([sys.executable, "-c", f"{start}; {DAEMON}"], cwd=ROOT) as bench:
        semaphore = semaphore_path(tmp_path)
        bench.kill()
    wait_until(lambda: not semaphore.exists())


def script_with_semaphore(folder: Path) -> str:
    return (
        "import multiprocessing, pathlib, signal, sys; signal.signal(15, signal.SIG_IGN)\n"
        "lock = multiprocessing.get_context('spawn').Lock()\n"
        f"pathlib.Path({str(folder)!r}, 'semaphore').write_text(lock._semlock.name)\n{DAEMON}"
    )


def semaphore_path(folder: Path) -> Path:
    """Wait until the semaphore exists, and return its path."""
    file = folder / "semaphore"
    name = wait_until(lambda: file.exists() and file.read_text())
    semaphore = Path("/dev/shm", f"sem.{name.lstrip('/')}")  # noqa: S108 (see sem_overview(7))
    assert semaphore.exists()
    return semaphore


def test_a_daemon_is_ended_only_when_the_process_that_started_it_is_stopped(tmp_path: Path) -> None:
    file = tmp_path / "daemon"
    write_pid = f"pathlib.Path({str(file)!r}).write_text(str(os.getpid()))"
    first = started("-c", DAEMON)
    second = started("-c", f"import os, pathlib\nif not os.fork():\n  os.setsid()\n  {write_pid}\n  {DAEMON}")
    marked = wait_until(lambda: daemon(file))
    wait_until(lambda: marked in current_supervisor().orphans())
    asyncio.run(first.stop())
    assert not gone(marked)
    asyncio.run(second.stop())
    assert gone(marked)


def test_the_supervisor_reaps_ended_orphans() -> None:
    forks = "for _ in range(20):\n  if not os.fork():\n    os.fork()\n    os._exit(0)\n  os.wait()\n"
    forks = f"import os\n{forks}print('forked', flush=True)\ninput()"
    process = ManagedProcess([sys.executable, "-c", forks], environment=server_environment(), stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"forked\n"
    wait_until(lambda: not current_supervisor().orphans())  # the supervisor adopts orphans
    asyncio.run(process.stop())


def test_a_supervised_process_has_the_exit_status_and_output_of_a_normal_child() -> None:
    process = started("-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert asyncio.run(process.wait(20))
    assert (process.stdout.read(), process.stderr.read()) == (b"out\n", b"err\n")
    assert process.reap() == 7
    asyncio.run(process.stop())
    killed = started("-c", DAEMON)
    os.kill(killed.pid, signal.SIGKILL)
    assert asyncio.run(killed.wait(20))
    assert killed.reap() == -signal.SIGKILL
    asyncio.run(killed.stop())


def test_a_missing_program_raises_file_not_found() -> None:
    with pytest.raises(FileNotFoundError):
        ManagedProcess(["/no/such/program"], environment={})


def test_the_supervisor_ignores_stop_signals() -> None:
    process = started("-c", DAEMON)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(process.supervisor.pid, number)
        next_process = started("-c", "print('fine')")
        assert next_process.supervisor is process.supervisor
        asyncio.run(next_process.stop())
        wait_until(lambda pid=next_process.pid: not psutil.pid_exists(pid))  # not even as a zombie
    asyncio.run(process.stop())


def test_a_server_that_kills_its_parent_does_not_affect_later_processes() -> None:
    killer = started("-c", f"import os; os.kill(os.getppid(), 9); {DAEMON}")
    assert asyncio.run(killer.wait(20))
    asyncio.run(killer.stop())
    wait_until(lambda: gone_pid(killer.pid))
    next_process = started("-c", "print('fine')")
    assert asyncio.run(next_process.wait(20))
    assert next_process.stdout.read() == b"fine\n"
    asyncio.run(next_process.stop())


def test_a_server_that_stops_its_parent_does_not_affect_later_processes() -> None:
    stopper = started("-c", f"import os; os.kill(os.getppid(), {signal.SIGSTOP:d}); {DAEMON}")
    wait_until(lambda: psutil.Process(stopper.supervisor.pid).status() == psutil.STATUS_STOPPED)
    next_process = started("-c", "print('fine')")
    assert asyncio.run(next_process.wait(20))
    asyncio.run(next_process.stop())
    asyncio.run(stopper.stop())
    assert gone_pid(stopper.pid)


def gone_pid(pid: int) -> bool:
    try:
        return gone(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True


@contextlib.contextmanager
def running_bench(words: list[str], folder: Path) -> Iterator[subprocess.Popen]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(bench_command(*words), cwd=folder, **quiet) as bench:
        try:
            yield bench
        finally:
            bench.kill()


def seed_for(server: Path | str, first: str) -> str:
    """Return a seed with which this case of the server and the ceiling comes first."""
    seeds = map(str, range(100))
    return next(seed for seed in seeds if next(plan_of(server, seed=int(seed)).in_order())[0].server == first)


def at_work(pid: int, *words: str) -> tuple[list[psutil.Process], str] | None:
    """Return the descendants and their commands; return None unless the commands contain all these words."""
    family = offspring(pid)
    seen = commands(family)
    return (family, seen) if all(word in seen for word in words) else None


def test_a_temporary_supervisor_does_not_remove_directories_of_the_outer_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary supervisor would remove these directories only if the bench were killed."""
    outer = SimpleNamespace(folders=[tmp_path], is_lost=lambda: False)
    monkeypatch.setattr(supervisor_client, "_SUPERVISORS", [outer])
    with another_supervisor():
        inner = current_supervisor()
        assert inner is not outer
        assert inner.folders == [tmp_path]
        os.kill(inner.pid, signal.SIGSTOP)  # one of its processes might do so
        wait_until(lambda: psutil.Process(inner.pid).status() == psutil.STATUS_STOPPED)
    assert not psutil.pid_exists(inner.pid)
    assert tmp_path.is_dir()
    assert current_supervisor() is outer


def test_a_bench_killed_under_load_leaves_no_processes_and_no_files(daemon_pid: Path, tmp_path: Path) -> None:
    words = ["run", str(HIDES), *LONG, "--seed", seed_for(HIDES, HIDES.stem)]
    with running_bench(words, tmp_path) as bench:
        names = (HIDES.name, "cpu_speed_loop", "task_runs", "/siegerc")
        family, seen = wait_until(lambda: at_work(bench.pid, *names))
        family.append(daemon(daemon_pid))
        home = Path(re.search(r"--rc=(\S+)/siegerc", seen)[1])
        port = int(re.search(r"--port (\d+)", seen)[1])
        assert home.is_dir()
        bench.kill()
        wait_until(lambda: all(map(gone, family)) and not home.exists() and is_free(port))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["run", "2", *LONG, "--seed", seed_for("2", "bare")], script("no_server_baseline")[1]),
        (["try", "awkward_tasks:never_ends"], script("task_profiler")[1]),
    ],
    ids=["ceiling", "try"],
)
def test_a_bench_killed_during_the_ceiling_or_the_try_command_leaves_no_processes(
    words: list[str], name: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    with running_bench(words, tmp_path) as bench:
        family, _ = wait_until(lambda: at_work(bench.pid, name))
        bench.kill()
        wait_until(lambda: all(map(gone, family)))


def test_a_finished_bench_leaves_no_supervisor_and_kills_no_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of the same session survives, even one that the shell started before it executed the bench."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    before_s = time.time()
    script = f"sleep 600 >/dev/null 2>&1 & echo $!; exec {sys.executable} {ROOT / 'bench.py'} try sample_tasks:a_blink"
    ran = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0
    sibling = psutil.Process(int(ran.stdout.splitlines()[0]))
    assert not gone(sibling)
    sibling.kill()
    found = [process for process in psutil.process_iter() if process.create_time() > before_s and _keeps(process)]
    assert all(
        psutil.pid_exists(process.ppid()) for process in found
    )  # supervisors with a parent belong to other tests


def _keeps(process: psutil.Process) -> bool:
    return SUPERVISOR in commands([process])
