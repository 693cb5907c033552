"""12_async_celery with a broker and workers that are started as one does by hand, and with those of its own."""

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from conftest import LIMIT_S, ROOT, SUPPORT, Answer, Served, receive, serving, start, wait_until

from common import server_contract
from common.server_contract import path_of, remedy, unmet
from under_siege.report.server_list import catalogue_as_text
from under_siege.run.plan import make_plan
from under_siege.targets.strategies import strategies_suite

if TYPE_CHECKING:
    import redis

SERVER = ROOT / "servers" / "12_async_celery.py"
needs_redis = pytest.mark.skipif(bool(unmet("redis-server")), reason=unmet("redis-server"))


def asking(socket: Path | str) -> "redis.Redis":
    """The broker that listens there."""
    import redis  # takes long, and only the process that runs such a test needs it

    return redis.Redis(unix_socket_path=str(socket))


@contextlib.contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a session of its own, ended with all that it started."""
    process = subprocess.Popen(
        words,
        cwd=SUPPORT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Elsewhere:
    """A broker that keeps what it is given on disk, and one Celery worker with two processes."""

    def __init__(self, stack: contextlib.ExitStack, folder: Path) -> None:
        self._stack, self._folder, self.socket = stack, folder, folder / "redis.sock"
        self.address = f"redis+socket://{self.socket}"
        self.start_broker()

    def start_broker(self) -> None:
        self.socket.unlink(missing_ok=True)
        listen = ("--port", "0", "--unixsocket", str(self.socket), "--dir", str(self._folder))
        disk = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")
        self.broker = self._stack.enter_context(started(path_of("redis-server"), *listen, *disk))
        wait_until(self.socket.exists)

    def start_worker(self) -> None:
        celery = str(Path(sys.executable).with_name("celery"))
        words = ("worker", "--concurrency", "2", "--without-gossip", "--without-mingle")
        self.worker = self._stack.enter_context(started(celery, "--app", "common.kits.celery_app", *words))

    def processes(self) -> list[psutil.Process]:
        return psutil.Process(self.worker.pid).children(recursive=True)


@needs_redis
def test_on_a_broker_and_workers_of_others(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One broker, one worker and one server for all of it, because they take long to start."""
    chosen = tmp_path / "chosen"
    chosen.write_text("short")
    monkeypatch.setenv("CHOSEN", str(chosen))
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    with contextlib.ExitStack() as stack:
        elsewhere = Elsewhere(stack, tmp_path_factory.mktemp("r"))
        monkeypatch.setenv("CELERY_BROKER_URL", elsewhere.address)
        elsewhere.start_worker()
        with serving(SERVER, "--task", "sample_tasks:chosen", "--queue", "20") as served:
            tasks_run_in_its_processes(served, elsewhere)
            what_a_lost_process_had_is_done_again(served, elsewhere, chosen, tmp_path)
            what_ends_its_process_again_and_again_is_given_up(served, chosen)
            what_was_given_up_while_the_broker_was_stopped_is_not_begun(served, elsewhere, chosen, tmp_path)
            while_the_broker_is_stopped_everybody_is_told(served, elsewhere, chosen)
            when_the_broker_is_gone_everybody_is_told_and_it_is_whole_when_that_is_back(served, elsewhere, chosen)
            a_job_tells_how_far_it_is(served, chosen, tmp_path)
            a_job_that_raises_is_told_in_one_line(served, chosen)
            job = a_job_is_taken(served, chosen)
            served.process.terminate()
            assert served.process.wait(timeout=20) == 0
            assert (served.process.stdout.read(), served.process.stderr.read()) == ("", "")
        with serving(SERVER, "--task", "sample_tasks:chosen") as another:
            assert asked(another, "GET", job, wait_s=10).body == "at last"
        what_its_workers_cannot_import_is_told_at_the_start(tmp_path)


def tasks_run_in_its_processes(served: Served, elsewhere: Elsewhere) -> None:
    assert not psutil.Process(served.process.pid).children()
    ran_in = {receive(request).headers["x-worker"].split("/")[0] for request in [served.send("/") for _ in range(4)]}
    assert {int(pid) for pid in ran_in} <= {process.pid for process in elsewhere.processes()}


def what_a_lost_process_had_is_done_again(served: Served, elsewhere: Elsewhere, chosen: Path, folder: Path) -> None:
    chosen.write_text("waits_to_be_told")
    begun = folder / "begun"
    requests = [served.send("/") for _ in range(4)]
    wait_until(lambda: begun.exists() and begun.read_text() == "xx")
    elsewhere.processes()[0].kill()
    wait_until(lambda: begun.read_text() == "xxx")
    (folder / "told").touch()
    assert [receive(request).body for request in requests] == ["told"] * 4


def what_ends_its_process_again_and_again_is_given_up(served: Served, chosen: Path) -> None:
    chosen.write_text("ends_its_process")
    answer = served.request("/")
    assert (answer.status, answer.body) == (500, "the task ended its process 3 times in a row: given up")
    chosen.write_text("short")
    assert served.request("/").body == "short"


def while_the_broker_is_stopped_everybody_is_told(served: Served, elsewhere: Elsewhere, chosen: Path) -> None:
    chosen.write_text("half_a_second")
    elsewhere.broker.send_signal(signal.SIGSTOP)
    everybody_is_told(served)
    elsewhere.broker.send_signal(signal.SIGCONT)
    it_is_whole_again(served)


def what_was_given_up_while_the_broker_was_stopped_is_not_begun(
    served: Served, elsewhere: Elsewhere, chosen: Path, folder: Path
) -> None:
    begun, told = folder / "begun", folder / "told"
    chosen.write_text("waits_to_be_told")
    for file in (begun, told):
        file.unlink()
    requests = [served.send("/") for _ in range(6)]
    with asking(elsewhere.socket) as broker:
        wait_until(lambda: begun.exists() and begun.read_text() == "xx" and broker.llen("under_siege"))
        elsewhere.broker.send_signal(signal.SIGSTOP)
        assert {receive(request).status for request in requests} == {503}
        elsewhere.broker.send_signal(signal.SIGCONT)
        wait_until(lambda: len(broker.keys("unwanted-*")) == len(requests))
    told.touch()
    assert served.request("/").body == "told"
    assert begun.read_text() == "xxx"  # the two before, and this one


def when_the_broker_is_gone_everybody_is_told_and_it_is_whole_when_that_is_back(
    served: Served, elsewhere: Elsewhere, chosen: Path
) -> None:
    chosen.write_text("half_a_second")
    requests = [served.send("/") for _ in range(3)]
    elsewhere.broker.kill()
    assert {receive(request).status for request in requests} == {503}
    everybody_is_told(served)
    elsewhere.start_broker()
    it_is_whole_again(served)


def everybody_is_told(served: Served) -> None:
    requests = [served.send("/") for _ in range(3)]
    for answer in [*map(receive, requests), served.request("/ready")]:
        assert (answer.status, "\n" in answer.body) == (503, False)
        assert "the broker of the queue " in answer.body
        assert int(answer.headers["retry-after"]) > 0
    assert served.request("/ping").body == "pong"


def it_is_whole_again(served: Served) -> None:
    wait_until(lambda: served.request("/ready").status == 200)
    assert served.request("/").body == "at last"


def asked(served: Served, method: str, path: str, wait_s: int = 0) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=LIMIT_S)
    connection.request(method, path, headers={"Prefer": f"wait={wait_s}"} if wait_s else {})
    return receive(connection)


def a_job_tells_how_far_it_is(served: Served, chosen: Path, folder: Path) -> None:
    (folder / "told").unlink()
    chosen.write_text("waits_to_be_told")
    taken = asked(served, "POST", "/jobs")
    assert (taken.status, taken.body) == (202, "queued")
    job = taken.headers["location"]
    wait_until(lambda: asked(served, "GET", job).body == "running")
    answer = asked(served, "GET", job)
    assert (answer.status, answer.headers["retry-after"]) == (202, "1")
    (folder / "told").touch()
    answer = asked(served, "GET", job, wait_s=10)
    assert (answer.status, answer.body) == (200, "told")
    assert asked(served, "GET", job).body == "told"
    assert asked(served, "GET", "/jobs/0123").status == 404
    head = asked(served, "HEAD", job)
    assert (head.status, head.headers["content-length"], head.body) == (200, "4", "")
    for method, path, allowed in (("GET", "/jobs", "POST"), ("DELETE", job, "GET, HEAD")):
        answer = asked(served, method, path)
        assert (answer.status, answer.headers["allow"]) == (405, allowed)
        assert answer.body == f"405 Method Not Allowed: only {allowed}"


def a_job_that_raises_is_told_in_one_line(served: Served, chosen: Path) -> None:
    chosen.write_text("raises")
    answer = asked(served, "GET", asked(served, "POST", "/jobs").headers["location"], wait_s=10)
    assert (answer.status, answer.body) == (500, "ValueError: the first line and a second one")


def a_job_is_taken(served: Served, chosen: Path) -> str:
    """Its answer is about to be fetched from another server."""
    chosen.write_text("half_a_second")
    return asked(served, "POST", "/jobs").headers["location"]


def what_its_workers_cannot_import_is_told_at_the_start(folder: Path) -> None:
    (folder / "only_here.py").write_text("def work():\n    return 1\n")
    process = start(SERVER, "--port", "0", "--task", "only_here:work", cwd=folder)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors.count("\n")) == (2, "", 1)
    assert errors.startswith("12_async_celery: a Celery worker says: cannot import task 'only_here:work' from ")


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where what is started keeps its files; none is left of what was killed. A short name, as sockets need it."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)
        wait_until(lambda: not list(Path(folder).iterdir()))


@needs_redis
def test_what_the_server_has_started_is_started_again_when_it_is_lost(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEGUN", str(begun := tmp_path / "begun"))
    with serving(SERVER, "--task", "sample_tasks:half_a_second", "--workers", "1") as served:
        requests = [served.send("/") for _ in range(2)]
        wait_until(begun.exists)
        its_worker(served).kill()
        assert [receive(request).body for request in requests] == ["at last"] * 2
        what_a_worker_was_sent_and_never_read_is_done_by_the_next(served)
        broker = its_broker(served)
        request = served.send("/")
        broker.kill()
        assert receive(request).status == 503
        it_is_whole_again(served)
        assert len(list(temporary.iterdir())) == 1


def its_worker(served: Served) -> psutil.Process:
    return wait_until(lambda: next((one for one in served.family()[1:] if one.children()), None))


def its_broker(served: Served) -> psutil.Process:
    return next(child for child in psutil.Process(served.process.pid).children() if "redis" in child.name())


def what_a_worker_was_sent_and_never_read_is_done_by_the_next(served: Served) -> None:
    """The broker has written the job to a worker that is stopped, and then killed."""
    worker = its_worker(served)
    socket = next(one.laddr for one in its_broker(served).net_connections("unix") if one.laddr)
    with asking(socket) as broker:
        job = stop_after_the_broker_sent_it_a_job(served, worker, broker)
    worker.kill()
    assert asked(served, "GET", job, wait_s=10).body == "at last"


def stop_after_the_broker_sent_it_a_job(served: Served, worker: psutil.Process, broker: "redis.Redis") -> str:
    """Return the job's address. A worker asks for 1 s at a time: one stopped between two requests is sent nothing."""
    for _ in range(10):
        wait_until(lambda: broker.info("clients")["blocked_clients"])
        worker.suspend()
        if broker.info("clients")["blocked_clients"]:
            job = asked(served, "POST", "/jobs").headers["location"]
            if not broker.llen("under_siege"):
                return job
        worker.resume()
        wait_until(lambda: not broker.llen("under_siege"))
    pytest.fail("the worker was never stopped while it asked for a job")


@needs_redis
def test_what_was_on_its_way_to_a_worker_elsewhere_that_is_lost_is_put_back_by_another(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kombu import Connection, Consumer, Exchange, Message, Producer, Queue  # for this test alone: it takes long
    from kombu.transport import redis as transport

    from common.kits import celery_channel

    with contextlib.ExitStack() as stack:
        monkeypatch.setattr(transport.Transport, "Channel", celery_channel.Channel)
        elsewhere = Elsewhere(stack, tmp_path_factory.mktemp("r"))
        broker = stack.enter_context(asking(elsewhere.socket))
        queue = Queue("q", Exchange("q"), routing_key="q")
        connection = stack.enter_context(Connection(elsewhere.address))
        Producer(connection).publish("its task", exchange=queue.exchange, routing_key="q", declare=[queue])
        broker.blmove("q", on_its_way := "q-on-its-way", 1, "RIGHT", "LEFT")  # by the lost one
        got: list[Message] = []
        with Consumer(connection, queue, on_message=got.append) as consumer:
            consumer.channel.qos.restore_visible()
            assert broker.llen(on_its_way) == 1  # it may live
            monkeypatch.setattr(celery_channel, "LOST_AFTER_S", 0)
            consumer.channel.qos.restore_visible()
            connection.drain_events(timeout=LIMIT_S)
            assert [message.decode() for message in got] == ["its task"]
            consumer.channel.qos.restore_visible()
            assert (broker.llen("q"), broker.llen(on_its_way), broker.hlen("unacked")) == (0, 0, 1)
            got[0].ack()
            assert not broker.exists("unacked")


@pytest.mark.parametrize("address", ["redis://127.0.0.1:1/0", "amqp://127.0.0.1:1"])
def test_without_a_broker_it_does_not_start(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", address)
    process = start(SERVER, "--port", "0")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors.count("\n")) == (2, "", 1)
    assert f"CELERY_BROKER_URL='{address}'" in errors


def test_a_program_that_is_not_there_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)
    monkeypatch.setattr(server_contract, "path_of", lambda _program: None)
    assert unmet("redis-server") == "needs redis-server"
    assert remedy("redis-server").startswith("install it with: ")
    suite = strategies_suite(["2", "12"])
    plan = make_plan(suite, {"python": ["python3"]}, time_s=None, rounds=1)
    assert [(one.server, one.reason.split(":")[0]) for one in plan.left_out] == [
        ("12_async_celery", "needs redis-server")
    ]
    assert "(needs redis-server: install it with: " in catalogue_as_text(suite.targets)
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://somewhere")
    assert unmet("redis-server") == ""
