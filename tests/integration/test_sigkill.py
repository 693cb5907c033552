"""Nothing is left: not of a server that hides what it has started, and not of a bench that was killed."""

import asyncio
import contextlib
import os
import re
import shutil
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
from left_behind import ON_LINUX, commands
from planned import plan_of

from under_siege.paths import script, server_environment
from under_siege.processes import supervisor, supervisor_client
from under_siege.processes.managed_process import ManagedProcess, offspring
from under_siege.processes.supervisor import RUN_MARK
from under_siege.processes.supervisor_client import SUPERVISOR, another_supervisor, kept

HIDES = TESTS / "servers" / "hides_a_daemon.py"
AT_ONCE_S = 15.0  # 2 s, and patience with a busy machine
DAEMON = "import time; time.sleep(600)"


@pytest.fixture
def daemon_pid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that the daemon writes its number into; it is killed at the end."""
    path = tmp_path / "daemon.pid"
    monkeypatch.setenv("DAEMON_PID", str(path))
    yield path
    if path.exists() and path.read_text():
        try:
            os.kill(int(path.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            return


def daemon(path: Path) -> psutil.Process | None:
    """Once it is there and has said so."""
    return psutil.Process(int(path.read_text())) if path.exists() and path.read_text() else None


def started(*words: str) -> ManagedProcess:
    return ManagedProcess([sys.executable, *words], environment=server_environment())


@ON_LINUX
def test_a_daemon_with_nothing_in_its_environment_ends_with_its_server(daemon_pid: Path) -> None:
    server = started(str(HIDES), "--port", "0")
    hidden = wait_until(lambda: daemon(daemon_pid))
    assert os.getsid(hidden.pid) != os.getsid(server.pid)
    asyncio.run(server.stop())
    assert gone(hidden)


def test_one_that_never_hides_anybody_is_told_to_end_and_all_of_its_session_end_with_it() -> None:
    """Even a child with nothing in its environment, while others are kept, whose end would be its end, too."""
    words = ["sh", "-c", "trap 'exit 3' TERM; env -i sleep 600 & echo $!; wait"]
    other = ManagedProcess(["sleep", "600"], environment=os.environ)
    first = ManagedProcess(words, environment=os.environ, may_hide=False)
    below = int(first.process.stdout.readline())
    asyncio.run(first.stop())
    assert first.process.wait() == 3  # it was told, and had the time to end by itself
    wait_until(lambda: gone_pid(below))
    asyncio.run(other.stop())


@ON_LINUX
def test_no_semaphore_is_left_of_one_that_does_not_end_when_it_is_told(tmp_path: Path) -> None:
    stubborn = started("-c", has_a_semaphore(tmp_path))
    semaphore = its_semaphore(tmp_path)
    asyncio.run(stubborn.stop(grace_s=0.0))
    assert not semaphore.exists()


@ON_LINUX
def test_no_semaphore_is_left_of_what_a_killed_bench_had_started(tmp_path: Path) -> None:
    words = [sys.executable, "-c", has_a_semaphore(tmp_path)]
    imports = "import os; from under_siege.processes.managed_process import ManagedProcess"
    start = f"{imports}; ManagedProcess({words!r}, environment=os.environ)"
    with subprocess.Popen([sys.executable, "-c", f"{start}; {DAEMON}"], cwd=ROOT) as bench:
        semaphore = its_semaphore(tmp_path)
        bench.kill()
    wait_until(lambda: not semaphore.exists())


def has_a_semaphore(folder: Path) -> str:
    return (
        "import multiprocessing, pathlib, signal, sys; signal.signal(15, signal.SIG_IGN)\n"
        "lock = multiprocessing.get_context('spawn').Lock()\n"
        f"pathlib.Path({str(folder)!r}, 'semaphore').write_text(lock._semlock.name)\n{DAEMON}"
    )


def its_semaphore(folder: Path) -> Path:
    """Once it is there and has said so."""
    says = folder / "semaphore"
    name = wait_until(lambda: says.exists() and says.read_text())
    semaphore = Path("/dev/shm", f"sem.{name.lstrip('/')}")  # noqa: S108 (where Linux keeps them: sem_overview(7))
    assert semaphore.exists()
    return semaphore


@ON_LINUX
def test_who_was_started_by_another_lives_on(daemon_pid: Path) -> None:
    server = started(str(HIDES), "--port", "0")
    hidden = wait_until(lambda: daemon(daemon_pid))
    later = started("-c", DAEMON)
    asyncio.run(later.stop())
    assert not gone(hidden)
    asyncio.run(server.stop())
    assert gone(hidden)


@ON_LINUX
def test_a_daemon_that_tells_whose_it_is_ends_with_no_other(tmp_path: Path) -> None:
    says = tmp_path / "daemon"
    told = f"pathlib.Path({str(says)!r}).write_text(str(os.getpid()))"
    first = started("-c", DAEMON)
    second = started("-c", f"import os, pathlib\nif not os.fork():\n  os.setsid()\n  {told}\n  {DAEMON}")
    marked = wait_until(lambda: daemon(says))
    wait_until(lambda: marked in kept().orphans())
    asyncio.run(first.stop())
    assert not gone(marked)
    asyncio.run(second.stop())
    assert gone(marked)


@ON_LINUX
def test_orphans_that_have_ended_are_no_zombies() -> None:
    forks = "for _ in range(20):\n  if not os.fork():\n    os.fork()\n    os._exit(0)\n  os.wait()\n"
    forks = f"import os\n{forks}print('forked', flush=True)\ninput()"
    process = ManagedProcess([sys.executable, "-c", forks], environment=server_environment(), stdin=subprocess.PIPE)
    assert process.process.stdout.readline() == b"forked\n"
    wait_until(lambda: not kept().orphans())  # whose children they became when their parents ended
    asyncio.run(process.stop())


def test_its_status_and_what_it_says_are_those_of_any_child() -> None:
    process = started("-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert asyncio.run(process.wait(20))
    assert (process.process.stdout.read(), process.process.stderr.read()) == (b"out\n", b"err\n")
    assert process.process.wait() == 7
    asyncio.run(process.stop())
    killed = started("-c", DAEMON)
    os.kill(killed.pid, signal.SIGKILL)
    assert asyncio.run(killed.wait(20))
    assert killed.process.wait() == -signal.SIGKILL
    asyncio.run(killed.stop())


def test_what_can_not_be_started_is_said_as_ever() -> None:
    with pytest.raises(FileNotFoundError):
        ManagedProcess(["/no/such/program"], environment={})


def test_the_supervisor_outlives_what_stops_a_bench() -> None:
    process = started("-c", DAEMON)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(process.process.supervisor.pid, number)
        next_one = started("-c", "print('fine')")
        assert next_one.process.supervisor is process.process.supervisor
        asyncio.run(next_one.stop())
        wait_until(lambda pid=next_one.pid: not psutil.pid_exists(pid))  # not even as a zombie
    asyncio.run(process.stop())


def test_a_server_that_kills_its_parent_kills_neither_the_bench_nor_what_comes_next() -> None:
    murderer = started("-c", f"import os; os.kill(os.getppid(), 9); {DAEMON}")
    assert asyncio.run(murderer.wait(20))
    asyncio.run(murderer.stop())
    wait_until(lambda: gone_pid(murderer.pid))
    next_one = started("-c", "print('fine')")
    assert asyncio.run(next_one.wait(20))
    assert next_one.process.stdout.read() == b"fine\n"
    asyncio.run(next_one.stop())


def test_one_that_stops_its_parent_stops_nothing_else() -> None:
    stopper = started("-c", f"import os; os.kill(os.getppid(), {signal.SIGSTOP:d}); {DAEMON}")
    wait_until(lambda: psutil.Process(stopper.process.supervisor.pid).status() == psutil.STATUS_STOPPED)
    next_one = started("-c", "print('fine')")
    assert asyncio.run(next_one.wait(20))
    asyncio.run(next_one.stop())
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


def at_work(pid: int, *words: str) -> tuple[list[psutil.Process], str] | None:
    """Those below it and their commands, if all these are there at the same time: a warm-up is soon over."""
    family = offspring(pid)
    seen = commands(family)
    return (family, seen) if all(word in seen for word in words) else None


class Clock:
    """Goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, for_s: float) -> None:
        self.now_s += for_s


class Left:
    """Processes that do not end before they are killed, and when that was for the first time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *pids: int) -> None:
        self.clock, self.pids, self.killed_s = Clock(), pids, dict[int, float]()
        shown = SimpleNamespace(waitpid=lambda *_: (0, 0), WNOHANG=os.WNOHANG, kill=self.kill)
        monkeypatch.setattr(supervisor, "time", self.clock)
        monkeypatch.setattr(supervisor, "os", shown)

    def kill(self, pid: int, number: int) -> None:
        assert number == signal.SIGKILL
        self.killed_s.setdefault(pid, self.clock.now_s)

    def those_that_were_not_killed(self) -> list[int]:
        return [pid for pid in self.pids if pid not in self.killed_s]


def test_a_resource_tracker_has_two_seconds_to_tidy_and_all_others_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker, other = 11, 12
    left = Left(monkeypatch, tracker, other)
    monkeypatch.setattr(supervisor, "is_tracker", lambda pid: pid == tracker)
    one = supervisor.Supervisor(None, "")
    monkeypatch.setattr(one, "_left", left.those_that_were_not_killed)
    one.end_all()
    assert left.killed_s[other] == 0
    assert 2.0 <= left.killed_s[tracker] < 2.1
    assert left.clock.now_s < 2.2  # and that is all that it waited


def test_who_does_not_end_even_when_killed_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    left = Left(monkeypatch, 11)
    monkeypatch.setattr(supervisor, "is_tracker", lambda _: False)
    one = supervisor.Supervisor(None, "")
    monkeypatch.setattr(one, "_left", lambda: left.pids)
    one.end_all()
    assert left.killed_s[11] == 0
    assert 10.0 <= left.clock.now_s < 10.1


def test_where_orphans_go_elsewhere_they_are_known_by_the_mark_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "descendants", lambda _: [])
    monkeypatch.setattr(supervisor, "works", lambda pid: pid != 4)
    marked = {(RUN_MARK, "ours"): [os.getpid(), 2, 4], (RUN_MARK, "of another run"): [3]}
    monkeypatch.setattr(supervisor, "who_has", lambda *mark: marked[mark])
    assert supervisor.Supervisor(None, "ours")._left() == [2]


def test_a_supervisor_for_a_while_would_remove_the_same_folders_and_leaves_them_where_we_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whom it ends may write into a folder that the former one has removed."""
    former = SimpleNamespace(folders=[tmp_path], lives=lambda: True)
    monkeypatch.setattr(supervisor_client, "_KEPT", [former])
    with another_supervisor():
        inner = kept()
        assert inner is not former
        assert inner.folders == [tmp_path]
        os.kill(inner.pid, signal.SIGSTOP)  # by somebody whom it had started, so late that nobody noticed
        wait_until(lambda: psutil.Process(inner.pid).status() == psutil.STATUS_STOPPED)
    assert not psutil.pid_exists(inner.pid)  # and what it had to remove is removed by then
    assert tmp_path.is_dir()
    assert kept() is former


class Idle:
    """A supervisor that has nothing to keep."""

    def __init__(self) -> None:
        self.folders, self.has_ended = [], False

    def lives(self) -> bool:
        return not self.has_ended

    def end_if_idle(self) -> None:
        self.has_ended = True


def test_a_supervisor_for_a_while_ends_after_that_if_it_has_nothing_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_client, "_KEPT", [])
    monkeypatch.setattr(supervisor_client, "SupervisorClient", Idle)
    with another_supervisor():
        inner = kept()
        assert inner.lives()
    assert not inner.lives()
    assert kept() is not inner


@ON_LINUX
def test_a_bench_that_was_killed_under_siege_leaves_nothing(daemon_pid: Path, tmp_path: Path) -> None:
    words = ["run", str(HIDES), "--rounds", "1", "--time", "60s", "--users", "2", *WAITING]
    words += ["--seed", str(_seed_for(HIDES))]
    with running_bench(words, tmp_path) as bench:
        names = (HIDES.name, "cpu_speed_loop", "baseline_worker", "/siegerc")
        family, seen = wait_until(lambda: at_work(bench.pid, *names))
        family.append(daemon(daemon_pid))
        home = Path(re.search(r"--rc=(\S+)/siegerc", seen)[1])
        port = int(re.search(r"--port (\d+)", seen)[1])
        assert home.is_dir()
        bench.kill()
        wait_until(lambda: all(map(gone, family)) and not home.exists() and is_free(port), AT_ONCE_S)


@ON_LINUX
@pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server")
def test_services_and_folders_of_a_suite_are_gone_too(tmp_path: Path) -> None:
    shop = TESTS / "suites" / "shop"
    (tmp_path / "plain.py").write_text((shop / "app.py").read_text())
    server = '[servers.plain]\ncommand = "python plain.py {port} plain {redis} {folder}"\n'
    (tmp_path / "s.toml").write_text(f'[load]\npath = "/report"\nusers = 2\ntime = "60s"\n{server}')
    with running_bench(["run", "s.toml", "--rounds", "1"], tmp_path) as bench:
        family, seen = wait_until(lambda: at_work(bench.pid, "plain.py", "/siegerc"))
        folder = Path(re.search(r"plain.py \d+ plain \S+ (\S+)", seen)[1])
        redis = next(one for one in family if one.name() == "redis-server")
        data = Path(redis.cwd())
        assert folder.is_dir()
        assert data.is_dir()
        bench.kill()
        wait_until(lambda: all(map(gone, family)) and not folder.exists() and not data.exists(), AT_ONCE_S)


def _seed_for(server: Path) -> int:
    """One with which the server comes before the bare case."""
    for seed in range(100):
        plan = plan_of(server, seed=seed)
        if next(plan.in_order())[0].server == server.stem:
            return seed
    raise AssertionError


@pytest.mark.parametrize(
    ("words", "at_work"),
    [
        (
            ["run", "2", "--rounds", "1", "--time", "60s", "--users", "2", "--seed", "{bare_first}", *WAITING],
            script("no_server_baseline")[1],
        ),
        (["try", "awkward_tasks:never_ends"], script("task_profiler")[1]),
    ],
    ids=["bare case", "try"],
)
def test_whatever_it_was_doing(words: list[str], at_work: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    words = [word.format(bare_first=_bare_first()) for word in words]
    with running_bench(words, tmp_path) as bench:
        wait_until(lambda: commands(offspring(bench.pid)).count(at_work) >= 1)
        family = offspring(bench.pid)
        bench.kill()
        wait_until(lambda: all(map(gone, family)), AT_ONCE_S)


def _bare_first() -> int:
    for seed in range(100):
        plan = plan_of("2", seed=seed)
        if next(plan.in_order())[0].server == "bare":
            return seed
    raise AssertionError


def test_a_bench_that_ends_by_itself_leaves_no_supervisor_and_ends_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even in the same session, or a child that the shell had before it became the bench."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    before_s = time.time()
    script = f"sleep 600 >/dev/null 2>&1 & echo $!; exec {sys.executable} {ROOT / 'bench.py'} try sample_tasks:a_blink"
    ran = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0
    stranger = psutil.Process(int(ran.stdout.splitlines()[0]))
    assert not gone(stranger)
    stranger.kill()
    found = [process for process in psutil.process_iter() if process.create_time() > before_s and _keeps(process)]
    assert all(psutil.pid_exists(process.ppid()) for process in found)  # of other tests


def _keeps(process: psutil.Process) -> bool:
    return SUPERVISOR in commands([process])
