"""12_async_celery with an external broker and worker, and with those that it starts itself."""

import contextlib
import select
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from conftest import LIMIT_S, ROOT, Answer, Served, gone, receive, serving, start, thorough, wait_until
from external_program import started

from under_siege.host import programs
from under_siege.host.programs import path_of, remedy, unmet
from under_siege.measure.plan import make_plan
from under_siege.suite.server_files import catalogue_as_text, strategies_suite

SERVER = ROOT / "servers" / "12_async_celery.py"
needs_redis = pytest.mark.skipif(bool(unmet("redis-server")), reason=unmet("redis-server"))


class ExternalCelery:
    """A broker that saves each write to disk, one Celery worker with two processes, and the files of its tasks."""

    def __init__(self, stack: contextlib.ExitStack, folder: Path, tasks: Path) -> None:
        self._stack, self._folder, self.socket = stack, folder, folder / "redis.sock"
        self.chosen, self.begun, self.told = (tasks / name for name in ("chosen", "begun", "told"))
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
    for name in ("chosen", "begun", "told"):
        monkeypatch.setenv(name.upper(), str(tmp_path / name))
    (tmp_path / "chosen").write_text("short")
    (tmp_path / "only_here.py").write_text("def work():\n    return 1\n")
    with contextlib.ExitStack() as stack:
        external = ExternalCelery(stack, tmp_path_factory.mktemp("r"), tmp_path)
        monkeypatch.setenv("CELERY_BROKER_URL", external.address)
        external.start_worker()
        wait_until(lambda: len(external.processes()) == 2)
        with serving(SERVER, "--task", "sample_tasks:chosen") as served:
            check_that_tasks_run_in_the_worker_processes(served, external)
            check_that_the_task_of_a_killed_process_is_rerun(served, external)
            check_the_states_of_a_job(served, external)
            check_that_failed_tasks_have_one_line_errors(served, external)
            check_that_requests_fail_until_the_broker_restarts(served, external)
            job = served.request("/jobs", "POST").headers["location"]
            served.process.terminate()
            assert served.process.wait(timeout=20) == 0
            assert served.process.stdout.read() == ""
        with serving(SERVER, "--task", "only_here:work", cwd=tmp_path) as another:
            assert result_of(another, job).body == "at last"
            must_fail_with(another.request("/"), "only_here:work")  # the worker can't import it


def must_fail_with(answer: Answer, text: str) -> None:
    assert (answer.status, "\n" in answer.body) == (500, False)
    assert text in answer.body


def result_of(served: Served, job: str) -> Answer:
    """Wait until the job is complete, and return its result."""
    wait_until(lambda: served.request(job).status != 202)
    return served.request(job)


def check_that_tasks_run_in_the_worker_processes(served: Served, external: ExternalCelery) -> None:
    assert not psutil.Process(served.process.pid).children()
    ran_in = {receive(request).headers["x-worker"].split("/")[0] for request in [served.send("/") for _ in range(4)]}
    assert {int(pid) for pid in ran_in} <= {process.pid for process in external.processes()}


def check_that_the_task_of_a_killed_process_is_rerun(served: Served, external: ExternalCelery) -> None:
    external.chosen.write_text("waits_for_file")
    requests = [served.send("/") for _ in range(4)]
    wait_until(lambda: external.begun.exists() and external.begun.read_text() == "xx")
    external.processes()[0].kill()
    wait_until(lambda: external.begun.read_text() == "xxx")
    external.told.touch()
    assert [receive(request).body for request in requests] == ["told"] * 4


def check_the_states_of_a_job(served: Served, external: ExternalCelery) -> None:
    external.told.unlink()
    taken = served.request("/jobs", "POST")
    assert (taken.status, taken.body) == (202, "queued")
    job = taken.headers["location"]
    wait_until(lambda: served.request(job).body == "running")
    answer = served.request(job)
    assert (answer.status, answer.headers["retry-after"]) == (202, "1")
    external.told.touch()
    for _ in range(2):
        answer = result_of(served, job)
        assert (answer.status, answer.body) == (200, "told")
    assert served.request("/jobs/0123").status == 404
    assert served.request("/jobs").status == 405


def check_that_failed_tasks_have_one_line_errors(served: Served, external: ExternalCelery) -> None:
    external.chosen.write_text("ends_its_process")
    must_fail_with(served.request("/"), "WorkerLostError")
    external.chosen.write_text("raises")
    failed = result_of(served, served.request("/jobs", "POST").headers["location"])
    must_fail_with(failed, "ValueError: the first line and a second one")


def check_that_requests_fail_until_the_broker_restarts(served: Served, external: ExternalCelery) -> None:
    external.chosen.write_text("a_moment")
    external.broker.kill()
    external.broker.wait()
    must_fail_with(served.request("/"), "")
    assert served.request("/ping").body == "pong"
    external.start_broker()
    request = served.send("/")

    def is_answered() -> bool:
        external.keep_worker()
        return bool(select.select([request.sock], [], [], 0)[0])

    wait_until(is_answered)
    assert receive(request).body == "at last"


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
    assert [left.server for left in plan.left_out] == ["12_async_celery"]
    assert "(needs redis-server; install it with: " in catalogue_as_text(suite.targets)
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://somewhere")
    assert unmet("redis-server") == ""
