"""The ceiling: the same load without a server, simulated by user threads in a few processes."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, SUPPORT, gone, wait_until
from plans import plan_of

from under_siege.host.interpreter import interpreter
from under_siege.host.managed_process import offspring
from under_siege.load.answer_check import check_interval_s
from under_siege.measure.load_run import processes_for, run_ceiling
from under_siege.measure.plan import new_record
from under_siege.measure.siege_length import Length
from under_siege.paths import script
from under_siege.record.case import Case
from under_siege.record.record import CaseFailedError, Record
from under_siege.record.requests import CHECK, CORRECT, LOAD
from under_siege.subprocess_scripts.no_server_baseline import CHECK_USER
from under_siege.suite.expected_response import Expectation

OTHER_PROCESSES = 5  # without users: supervisor, main process, forkserver, resource tracker and checker
NO_LIMIT_S = 1000.0
EXPECTED = Expectation(b"done", 0.1, 0.0)

DIARY = """
import os
import time
from pathlib import Path

{imports}

def write(what):
    with open("diary", "a") as diary:
        diary.write(f"{{what}} {{os.getpid()}} {{time.monotonic()}}\\n")

write("imported")

def task():
    write("began")
    {body}
    write("ended")
    return "done"
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_task(name: str, body: str = "time.sleep(0.05)", imports: str = "") -> str:
    """Write a task module into the current directory and return the task's name."""
    Path(f"{name}.py").write_text(DIARY.format(body=body, imports=imports))
    return f"{name}:task"


def diary(what: str) -> list[tuple[int, float]]:
    """Return the process id and the time of each diary entry of this kind."""
    entries = [line.split() for line in Path("diary").read_text().splitlines()]
    return [(int(pid), float(at)) for word, pid, at in entries if word == what]


def new_bare(task: str, users: int, time_s: float = NO_LIMIT_S) -> tuple[Case, Record]:
    plan = plan_of("2", task=task, users=users)
    (case,) = plan.ceilings
    record = new_record(plan, case, time_s, 1)
    record.answer_bytes = len("done")
    return case, record


def length(record: Record) -> Length:
    return Length(record.time_s, record.users, EXPECTED)


def computed(task: str, users: int, time_s: float = 1.0) -> Record:
    case, record = new_bare(task, users, time_s)
    asyncio.run(run_ceiling(case, interpreter(), EXPECTED, record, length(record), lambda: None))
    return record


def run_until_all_users_answered(task: str, users: int, look: Callable[[], None]) -> Record:
    """Run the ceiling until every user has a result, then call `look` and stop the ceiling."""
    case, record = new_bare(task, users)
    seen: set[int] = set()

    async def go() -> None:
        all_answered = asyncio.Event()

        def tell() -> None:
            seen.add(record.requests.user[-1])
            if len(seen) == users:
                all_answered.set()

        running = asyncio.ensure_future(run_ceiling(case, interpreter(), EXPECTED, record, length(record), tell))
        worked = asyncio.ensure_future(all_answered.wait())
        await asyncio.wait({running, worked}, return_when=asyncio.FIRST_COMPLETED)
        with contextlib.suppress(asyncio.CancelledError):
            if not running.done():
                look()
                running.cancel()
            await running

    asyncio.run(go())
    assert seen == set(range(users))
    return record


@contextlib.contextmanager
def bare(task: str, users: int, processes: int, *, in_turn: bool = False) -> Iterator[subprocess.Popen[str]]:
    """Run the ceiling as a process; yield the process once the users have started."""
    arguments = {"task": task, "users": users, "processes": processes, "check_interval_s": 1, "in_turn": in_turn}
    process = subprocess.Popen(
        [sys.executable, *script("no_server_baseline", **arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        process.go_s = json.loads(line)["go_s"]
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_single_user_has_its_own_process() -> None:
    assert processes_for(1) == 1
    looks: list[int] = []
    run_until_all_users_answered(write_task("jobs"), 1, lambda: looks.append(len(offspring(os.getpid()))))
    assert looks[0] <= 1 + OTHER_PROCESSES


def test_under_a_cpu_quota_users_take_turns_in_no_more_processes_than_can_use_it() -> None:
    assert [processes_for(25, cpus) for cpus in (0.5, 1.0, 1.5)] == [1, 1, 2]
    with bare(write_task("turns"), 3, 1, in_turn=True) as process:
        reported = (json.loads(line)[0] for line in process.stdout)
        users = [next(user for user in reported if user != CHECK_USER) for _ in range(12)]
    assert users == [0, 1, 2] * 4


def test_every_process_runs_the_task_once_before_the_users_start() -> None:
    task = write_task("heavy", imports="time.sleep(0.3)  # simulates heavy imports")
    with bare(task, users=6, processes=3) as process:
        performed = [next(line for line in process.stdout if json.loads(line)[0] != CHECK_USER) for _ in range(12)]
    assert len(performed) == 12
    imported = dict(diary("imported"))
    assert len(imported) == 3 + 1  # the processes with users, and the checker
    assert max(imported.values()) < process.go_s
    before_go = Counter(pid for pid, at in diary("ended") if at < process.go_s)
    assert set(before_go) == set(imported)
    assert set(before_go.values()) == {1}


def test_a_user_directory_named_common_does_not_shadow_the_project_package() -> None:
    Path("common").mkdir()
    Path("common", "__init__.py").write_text("raise RuntimeError('not this one')")
    Path("common", "task.py").write_text("raise RuntimeError('nor this one')")
    record = run_until_all_users_answered(write_task("jobs"), 3, lambda: None)
    assert set(record.requests.only(LOAD).user) == {0, 1, 2}


BREAKS = """if Path("break").exists(): {how}
    time.sleep(0.02)"""
IN_CHILDREN = "if __import__('multiprocessing').parent_process(): {how}"


RAISES = ("raise ValueError('out of luck')", "ValueError: out of luck")
KILLED = ("os.kill(os.getpid(), 9)", "SIGKILL")
CHILD_EXITS = ("os.fork() or time.sleep(60); os._exit(3)", "exit code 3")


@pytest.mark.parametrize(
    ("body", "how", "reason"),
    [
        pytest.param(BREAKS, *RAISES, id="raises under load"),
        pytest.param(BREAKS, *KILLED, id="is killed under load"),
        pytest.param(IN_CHILDREN, *RAISES, id="raises before the users start"),
        pytest.param(IN_CHILDREN, *CHILD_EXITS, id="exits before the users start and leaves a child"),
    ],
)
def test_a_failing_task_fails_the_ceiling_and_the_error_contains_the_cause(body, how, reason) -> None:
    case, record = new_bare(write_task("jobs", body.format(how=how)), 3)
    with pytest.raises(CaseFailedError) as failed:
        asyncio.run(run_ceiling(case, interpreter(), EXPECTED, record, length(record), Path("break").touch))
    assert failed.value.code == "died"
    assert reason in str(failed.value)
    assert not offspring(os.getpid())


def test_a_process_forked_by_the_task_does_not_run_the_task_as_a_user() -> None:
    with bare(write_task("jobs", "pid = os.fork()\n    if pid: os.waitpid(pid, 0)"), users=2, processes=1) as process:
        assert all(process.stdout.readline() for _ in range(20))
    assert {pid for pid, _ in diary("began")} == {pid for pid, _ in diary("imported")}


@pytest.mark.parametrize("task", ["sample_tasks:half_a_second_of_computing", "sample_tasks:half_a_second"])
def test_all_processes_of_the_ceiling_exit_when_the_main_process_is_killed(task, monkeypatch) -> None:
    monkeypatch.chdir(SUPPORT)
    with bare(task, users=60, processes=2) as process:
        family = offspring(process.pid)
        assert len(family) >= 3
        process.kill()
        wait_until(lambda: all(gone(one) for one in family))


def test_response_checks_are_recorded_separately_from_user_transactions() -> None:
    record = computed(write_task("jobs"), users=2)
    checks = record.requests.only(CHECK).outcome
    assert CHECK_USER not in record.requests.only(LOAD).user
    assert set(checks) == {CORRECT}
    assert len(checks) <= 1 + record.load_s / check_interval_s(0.1)
