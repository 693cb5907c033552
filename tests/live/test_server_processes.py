"""The processes of real servers: their roles, connections, starts and ends, and the sentences about them."""

import pytest
from bench_runs import run_once
from sample_applications import write

from under_siege.judge.ranking import Comparison, summarize
from under_siege.judge.round_statistics import Round
from under_siege.judge.server_processes import (
    crowding,
    replaced_together,
    spare_import,
    watched,
    workers_at_once,
    workers_replaced,
)
from under_siege.show.notes import notes

USERS, SEATS, HEAVY = 14, 3, 80_000_000
# A parent starts two workers. All of them have the listening socket.
PREFORK = f"""\
import mmap, os, signal, socket, subprocess, sys, threading, time

mode, number = sys.argv[1], int(sys.argv[4]) if sys.argv[4:] else -1
count = 3 if mode == "three" else 2
taken = mmap.mmap(-1, 1)  # shared with forked workers: connections of the first worker
lock = threading.Lock()
heavy = mode == "spare" or (mode == "lean" and number >= 0)
application = bytearray(b"x") * (HEAVY if heavy else 1)


def answer(connection, number):
    with connection, connection.makefile("rb") as lines:
        while (line := lines.readline()):
            while lines.readline().strip():
                pass
            if line.startswith(b"GET / "):
                if mode == "crowded":
                    with lock:
                        time.sleep(0.02)
                else:
                    time.sleep(0.02)
            connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
    if number == 0:
        taken[0] -= 1


def work(listener, number):
    # All workers end at the same moments, or one after the other.
    period = 3.0
    began = (time.monotonic() + number * period / 2 * (mode == "in-turn")) // period
    while True:
        if mode in ("together", "in-turn"):
            if (time.monotonic() + number * period / 2 * (mode == "in-turn")) // period > began:
                os._exit(0)
            listener.settimeout(0.05)
        if mode in ("crowded", "apart") and (taken[0] >= {SEATS}) == (number == 0):
            time.sleep(0.05)
            if number == 0:
                continue
        try:
            connection = listener.accept()[0]
        except TimeoutError:
            continue
        connection.settimeout(None)
        if number == 0:
            taken[0] += 1
        threading.Thread(target=answer, args=(connection, number), daemon=True).start()


if number >= 0:
    work(socket.socket(fileno=int(sys.argv[5])), number)
listener = socket.create_server(("127.0.0.1", int(sys.argv[2])), backlog=128)
children = {{}}
signal.signal(signal.SIGTERM, lambda *_: ([os.kill(pid, 9) for pid in children], os._exit(0)))


def start(number, pause_s):
    if mode in ("spare", "lean"):
        os.set_inheritable(listener.fileno(), True)
        words = [sys.executable, __file__, mode, "0", "0", str(number), str(listener.fileno())]
        return subprocess.Popen(words, close_fds=False).pid
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(pause_s)
        work(listener, number)
    return pid


for number in range(count):
    children[start(number, 0.0)] = number
while True:
    pid, _ = os.wait()
    number = children.pop(pid)
    children[start(number, 1.0)] = number
""".replace("HEAVY", str(HEAVY))
MODES = ("crowded", "apart", "spare", "lean", "together", "in-turn", "three")
SUITE = f"""\
[axes]
workers = [2]
[load]
users = {USERS}
tool = "client"
keep_alive = true
time = "5s"
[ping]
path = "/ping"
""" + "".join(f'[servers.{mode}]\ncommand = "python prefork.py {mode} {{port}} {{workers}}"\n' for mode in MODES)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Measure all servers in one run."""
    folder = tmp_path_factory.mktemp("processes")
    write(folder, {"prefork.py": PREFORK, "s.toml": SUITE})
    result, _ = run_once(folder, "s.toml")
    return summarize(result)


def measured(comparison: Comparison, server: str) -> Round:
    (run,) = next(rounds for rounds in comparison.rounds if rounds[0].record.server == server)
    assert run.record.failure is None
    return run


def notes_on(comparison: Comparison, server: str) -> str:
    return " ".join(text for names, text in notes(comparison) if server in names.split(", "))


@pytest.mark.parametrize("server", ["crowded", "apart", "spare", "lean"])
def test_a_parent_and_its_workers_are_told_apart(server: str, comparison: Comparison) -> None:
    found = watched(measured(comparison, server))
    assert [each.role for each in found] == ["parent", "worker", "worker"]
    assert sum(each.summary.connections.most for each in found) >= USERS
    assert all(each.process.began_s < 0 and each.process.ended_s is None for each in found)


def test_users_that_crowd_one_worker_are_reported_if_they_wait(comparison: Comparison) -> None:
    found = crowding(measured(comparison, "crowded"))
    assert found is not None
    assert sum(found.users) == USERS
    assert found.users[0] <= SEATS
    assert "connections stay where they were accepted" in notes_on(comparison, "crowded")
    assert "connections stay" not in notes_on(comparison, "apart")  # it answers all of them as quickly


def test_a_parent_that_imported_the_application_is_reported(comparison: Comparison) -> None:
    found = spare_import(measured(comparison, "spare"))
    assert found is not None
    assert found.parent_bytes > HEAVY
    assert found.all_bytes > 3 * HEAVY
    assert "imported the application" in notes_on(comparison, "spare")
    assert spare_import(measured(comparison, "lean")) is None


def test_workers_that_are_replaced_together_are_reported_if_nobody_answers(comparison: Comparison) -> None:
    found = replaced_together(measured(comparison, "together"))
    assert found is not None
    assert found.workers == 2
    assert "both workers were replaced within" in notes_on(comparison, "together")
    in_turn = measured(comparison, "in-turn")
    assert len(workers_replaced(in_turn)) > 0
    assert replaced_together(in_turn) is None


def test_another_number_of_workers_than_was_asked_for_is_reported(comparison: Comparison) -> None:
    assert workers_at_once(measured(comparison, "three")) == 3
    assert "2 workers were asked for, 3 ran" in notes_on(comparison, "three")
    assert "asked for" not in notes_on(comparison, "apart")
