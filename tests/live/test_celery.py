"""12_async_celery with an external broker and worker, and with those that it starts itself."""

import contextlib
import http.client
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from conftest import LIMIT_S, ROOT, SUPPORT, Answer, Served, gone, receive, serving, start, thorough, wait_until

from under_siege.host import programs
from under_siege.host.programs import path_of, remedy, unmet
from under_siege.measure.plan import make_plan
from under_siege.suite.strategies import catalogue_as_text, strategies_suite

SERVER = ROOT / "servers" / "12_async_celery.py"
needs_redis = pytest.mark.skipif(bool(unmet("redis-server")), reason=unmet("redis-server"))


@contextlib.contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program in its own session; kill the session at the end."""
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


class ExternalCelery:
    """A broker that saves each write to disk, and one Celery worker with two processes."""

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
        self.worker = self._stack.enter_context(started(celery, "--app", "common.celery_kit", *words))

    def keep_worker(self) -> None:
        """Restart the worker if it has exited, as a service manager would.

        With kombu 5.7, the worker sometimes crashes when the broker disappears: 'NoneType' object has no attribute
        'hostname'.
        """
        if self.worker.poll() is not None:
            self.start_worker()

    def processes(self) -> list[psutil.Process]:
        return psutil.Process(self.worker.pid).children(recursive=True)


@needs_redis
def test_the_celery_server_runs_tasks_and_jobs_with_an_external_broker_and_worker(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start the broker, the worker and the server only once for all checks, because each is slow to start."""
    chosen = tmp_path / "chosen"
    chosen.write_text("short")
    monkeypatch.setenv("CHOSEN", str(chosen))
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    with contextlib.ExitStack() as stack:
        external = ExternalCelery(stack, tmp_path_factory.mktemp("r"))
        monkeypatch.setenv("CELERY_BROKER_URL", external.address)
        external.start_worker()
        wait_until(lambda: len(external.processes()) == 2)
        with serving(SERVER, "--task", "sample_tasks:chosen") as served:
            check_that_tasks_run_in_the_worker_processes(served, external)
            check_that_the_task_of_a_killed_process_is_rerun(served, external, chosen, tmp_path)
            check_that_a_task_killing_its_process_fails(served, chosen)
            check_the_states_of_a_job(served, chosen, tmp_path)
            check_that_a_failed_job_has_a_one_line_error(served, chosen)
            check_that_requests_fail_until_the_broker_restarts(served, external, chosen)
            job = send_request(served, "POST", "/jobs").headers["location"]
            served.process.terminate()
            assert served.process.wait(timeout=20) == 0
            assert (served.process.stdout.read(), served.process.stderr.read()) == ("", "")
        (tmp_path / "only_here.py").write_text("def work():\n    return 1\n")
        with serving(SERVER, "--task", "only_here:work", cwd=tmp_path) as another:
            assert result_of(another, job).body == "at last"
            check_that_a_task_that_the_worker_cannot_import_fails(another)


def check_that_tasks_run_in_the_worker_processes(served: Served, external: ExternalCelery) -> None:
    assert not psutil.Process(served.process.pid).children()
    ran_in = {receive(request).headers["x-worker"].split("/")[0] for request in [served.send("/") for _ in range(4)]}
    assert {int(pid) for pid in ran_in} <= {process.pid for process in external.processes()}


def check_that_the_task_of_a_killed_process_is_rerun(
    served: Served, external: ExternalCelery, chosen: Path, folder: Path
) -> None:
    chosen.write_text("waits_for_file")
    begun = folder / "begun"
    requests = [served.send("/") for _ in range(4)]
    wait_until(lambda: begun.exists() and begun.read_text() == "xx")
    external.processes()[0].kill()
    wait_until(lambda: begun.read_text() == "xxx")
    (folder / "told").touch()
    assert [receive(request).body for request in requests] == ["told"] * 4


def check_that_a_task_killing_its_process_fails(served: Served, chosen: Path) -> None:
    chosen.write_text("ends_its_process")
    answer = served.request("/")
    assert (answer.status, "\n" in answer.body) == (500, False)
    assert answer.body.startswith("WorkerLostError: Worker exited prematurely")


def check_that_requests_fail_until_the_broker_restarts(served: Served, external: ExternalCelery, chosen: Path) -> None:
    chosen.write_text("a_moment")
    external.broker.kill()
    external.broker.wait()
    answer = served.request("/")
    assert (answer.status, "\n" in answer.body) == (500, False)
    assert served.request("/ping").body == "pong"
    external.start_broker()
    request = served.send("/")

    def is_answered() -> bool:
        external.keep_worker()
        return bool(select.select([request.sock], [], [], 0)[0])

    wait_until(is_answered)
    assert receive(request).body == "at last"


def send_request(served: Served, method: str, path: str, wait_s: int = 0) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=LIMIT_S)
    connection.request(method, path, headers={"Prefer": f"wait={wait_s}"} if wait_s else {})
    return receive(connection)


def result_of(served: Served, job: str) -> Answer:
    """Wait until the job is complete, and return its result."""
    answers: list[Answer] = []

    def is_complete() -> bool:
        answers.append(send_request(served, "GET", job, wait_s=10))
        return answers[-1].status != 202

    wait_until(is_complete)
    return answers[-1]


def check_the_states_of_a_job(served: Served, chosen: Path, folder: Path) -> None:
    (folder / "told").unlink()
    chosen.write_text("waits_for_file")
    taken = send_request(served, "POST", "/jobs")
    assert (taken.status, taken.body) == (202, "queued")
    job = taken.headers["location"]
    wait_until(lambda: send_request(served, "GET", job).body == "running")
    answer = send_request(served, "GET", job)
    assert (answer.status, answer.headers["retry-after"]) == (202, "1")
    (folder / "told").touch()
    answer = result_of(served, job)
    assert (answer.status, answer.body) == (200, "told")
    assert send_request(served, "GET", job).body == "told"
    assert send_request(served, "GET", "/jobs/0123").status == 404
    assert send_request(served, "GET", "/jobs").status == 405


def check_that_a_failed_job_has_a_one_line_error(served: Served, chosen: Path) -> None:
    chosen.write_text("raises")
    answer = result_of(served, send_request(served, "POST", "/jobs").headers["location"])
    assert (answer.status, answer.body) == (500, "ValueError: the first line and a second one")


def check_that_a_task_that_the_worker_cannot_import_fails(served: Served) -> None:
    answer = served.request("/")
    assert (answer.status, "\n" in answer.body) == (500, False)
    assert "only_here:work" in answer.body


@needs_redis
def test_the_readiness_check_fails_after_the_broker_or_worker_started_by_the_server_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory() as temporary:  # Unix sockets need a short path
        monkeypatch.setenv("TMPDIR", temporary)
        with serving(SERVER, "--task", "sample_tasks:half_a_minute", "--workers", "1") as served:
            family = psutil.Process(served.process.pid).children(recursive=True)
            broker = next(one for one in family if "redis" in one.name())
            worker = next(one for one in family if one.children())
            served.send("/")
            for name, process in (("Celery worker", worker), ("Redis", broker)):
                process.kill()
                wait_until(lambda name=name: f"own {name} has exited" in served.request("/ready").body)
                assert (served.request("/ready").status, served.request("/ping").body) == (503, "pong")
            served.process.terminate()
            assert served.process.wait(timeout=LIMIT_S) == 0
            wait_until(lambda: all(map(gone, family)))
            assert not list(Path(temporary).glob("under-siege-*"))


@pytest.mark.parametrize(
    "address", thorough(["redis://127.0.0.1:1/0", "amqp://127.0.0.1:1"], quick=["redis://127.0.0.1:1/0"])
)
def test_the_celery_server_exits_with_an_error_if_the_broker_is_unreachable(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", address)
    process = start(SERVER, "--port", "0")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors.count("\n")) == (2, "", 1)
    assert address in errors


def test_a_missing_redis_server_is_reported_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)
    monkeypatch.setattr(programs, "path_of", lambda _program: None)
    assert unmet("redis-server") == "needs redis-server"
    assert remedy("redis-server").startswith("install it with: ")
    suite = strategies_suite(["2", "12"])
    plan = make_plan(suite, {"python": ["python3"]}, time_s=None, rounds=1)
    assert [(left.server, left.reason.split(";")[0]) for left in plan.left_out] == [
        ("12_async_celery", "needs redis-server")
    ]
    assert "(needs redis-server; install it with: " in catalogue_as_text(suite.targets)
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://somewhere")
    assert unmet("redis-server") == ""
