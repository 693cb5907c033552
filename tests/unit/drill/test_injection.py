"""Faults that could not be injected: the drill must not report that the server has survived them."""

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace

import psutil
import pytest
from formatted import formatted
from simulated_record import result_of

from under_siege.drill import injection, job_injection
from under_siege.drill.faults import CONTROL, FAULTS
from under_siege.drill.injection import ELSEWHERE, FOREIGN, Need
from under_siege.drill.loaded_server import FaultContext
from under_siege.drill.outcome_summary import exit_code_of, fault_outcomes
from under_siege.drill.view import conclusion, view
from under_siege.record.record import CaseFailedError, Incident
from under_siege.record.requests import CORRECT, LOAD, Outcome


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BUSY_S", "STOP_CPU_S", "PAUSE_S"):
        monkeypatch.setattr(injection, name, 0.0)


class Worker:
    """A worker process that raises this error at each signal."""

    def __init__(self, error: psutil.Error | None) -> None:
        self.pid, self._error, self.got = os.getpid(), error, 0

    def suspend(self) -> None:
        if self._error:
            raise self._error
        self.got += 1

    kill = resume = suspend


def incident(fault: str = "worker", **values: object) -> Incident:
    return Incident(server="shop", title="Shop", values={"users": 8}, fault=fault, round=1, **values)


class Tasks:
    def set_cpu_time(self, cpu_s: float) -> None: ...

    def make_next_endless(self, name: str) -> None: ...

    def has_pending_endless(self) -> bool:
        return True

    def started(self) -> int:
        return 0


class Context(FaultContext):
    """A context in which the load and the recovery take no time."""

    def __init__(self, one: Incident, *workers: Worker, has_builtin_tasks: bool = False) -> None:
        process = psutil.Process()
        server = SimpleNamespace(process=process, pid=process.pid, alive=lambda: True, url="http://127.0.0.1:1")
        super().__init__(server, None, SimpleNamespace(ask=accept_a_job), Tasks(), None, 0, False, one)
        self._workers = list(workers)
        if has_builtin_tasks:
            one.values["task"] = "t"

    def child_processes(self) -> list[psutil.Process]:
        return self._workers

    @contextlib.asynccontextmanager
    async def under_load(self) -> AsyncIterator[None]:
        yield

    @contextlib.asynccontextmanager
    async def sending_at_once(self, count: int, _: float) -> AsyncIterator[Callable[[], Awaitable[list[Outcome]]]]:
        async def outcomes() -> list[Outcome]:
            return [CORRECT] * count

        yield outcomes

    async def gets_a_stream(self, _limit_s: float) -> bool:
        return False

    async def recovers_within(self, _limit_s: float) -> bool:
        return True

    def signal(self, _number: int) -> None:
        for worker in self._workers:
            worker.kill()


async def accept_a_job(url: str, *_: object) -> SimpleNamespace:
    return SimpleNamespace(status=202, headers={"location": f"{url}/1"})


SIGNALS = {
    "worker": injection.kill_a_worker,
    "pause": injection.pause_a_worker,
    "stop": injection.stop,
    "jobs_worker": job_injection.kill_a_worker_with_jobs,
    "jobs_server": job_injection.kill_the_server_with_jobs,
}


@pytest.mark.parametrize("fault", SIGNALS)
def test_a_signal_that_is_not_permitted_is_no_fault_that_the_server_survives(fault: str) -> None:
    one = incident(fault)
    asyncio.run(SIGNALS[fault](Context(one, Worker(psutil.AccessDenied(1)))))
    assert (one.without, one.fault_at_s) == (FOREIGN, None)
    assert "begun_lost" not in one.seen
    assert FOREIGN == "its processes belong to another user"


@pytest.mark.parametrize("fault", SIGNALS)
def test_a_process_that_ended_before_its_signal_is_no_fault_that_the_server_survives(fault: str) -> None:
    with pytest.raises(CaseFailedError, match="ended by itself before it got the signal"):
        asyncio.run(SIGNALS[fault](Context(incident(fault), Worker(psutil.NoSuchProcess(1)))))


@pytest.mark.parametrize("fault", ["worker", "pause"])
def test_a_permitted_signal_is_a_fault(fault: str) -> None:
    one, worker = incident(fault), Worker(None)
    asyncio.run(SIGNALS[fault](Context(one, worker)))
    assert one.without == ""
    assert one.fault_at_s is not None
    assert worker.got == {"worker": 1, "pause": 2}[fault]


def test_a_server_that_has_already_ended_gets_no_signal() -> None:
    server = SimpleNamespace(process=psutil.Process(), alive=lambda: False)
    with pytest.raises(psutil.NoSuchProcess):
        FaultContext(server, None, None, None, None, 0, False, incident()).signal(signal.SIGTERM)


@pytest.mark.parametrize("fault", [name for name, fault in FAULTS.items() if Need.PROCESS in fault.needs])
def test_faults_that_need_unknown_processes_are_not_injected(fault: str) -> None:
    one = incident(fault)
    asyncio.run(FAULTS[fault].inject(SimpleNamespace(server=SimpleNamespace(pid=None), incident=one)))
    assert one.without == ELSEWHERE
    assert one.seen == {}


@pytest.mark.parametrize("inject", [injection.stop, injection.start_an_endless_task])
def test_a_fault_for_a_task_that_never_starts_is_not_reported_as_survived(
    inject: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks may run on another machine, or as a user who can't read the directory of the drill."""
    monkeypatch.setattr(injection, "BEGIN_LIMIT_S", 0.0)
    worker = Worker(None)
    with pytest.raises(CaseFailedError, match="no task has "):
        asyncio.run(inject(Context(incident(), worker, has_builtin_tasks=True)))
    assert not worker.got


@pytest.mark.parametrize(
    "inject", [injection.overload, injection.send_incomplete_requests, injection.open_silent_connections]
)
def test_a_server_is_not_blamed_for_connections_that_the_bench_cannot_open(
    inject: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (128, 256))
    with pytest.raises(CaseFailedError, match=r"open files, but the limit is 128; raise it: ulimit -n \d+"):
        asyncio.run(inject(Context(incident())))


def test_each_of_many_requests_at_once_is_counted_whatever_its_outcome() -> None:
    outcomes = [CORRECT] * 3 + ["refused"] * 4 + ["limited"] * 5 + ["lost", "late", "wrong"]
    counts = injection.counts_of(outcomes)
    assert sum(counts.values()) == len(outcomes)
    assert (counts["answered"], counts["refused"]) == (3, 9)


def survived(fault: str) -> Incident:
    one = incident(fault, fault_at_s=1.0, ended_s=6.0, left_whole=True)
    for number in range(240):
        one.requests.add(LOAD, sent_s=number / 40, ended_s=number / 40, outcome=CORRECT)
    return one


@pytest.mark.parametrize("reason", [FOREIGN, ELSEWHERE])
def test_a_result_with_faults_that_were_not_injected_is_undecided_and_says_why(reason: str) -> None:
    outcomes = fault_outcomes([survived(CONTROL), survived("slow"), incident("worker", without=reason)])
    sentences = list(conclusion(outcomes))
    assert sentences[0] == "No server is known to survive every fault."
    assert sentences[-1] == f"Could not be injected: shop (worker killed): {reason}."
    assert exit_code_of(outcomes) == 3
    result = result_of([])
    result.incidents.extend([survived(CONTROL), incident("worker", without=reason)])
    assert view(result).exit_code == 3
    for output_format in ("table", "markdown", "html"):
        assert "unknown" in formatted(result, output_format)


def test_a_fault_that_does_not_apply_leaves_the_result_decided() -> None:
    fine = [survived(name) for name in (CONTROL, "slow", "silent")]
    outcomes = fault_outcomes([*fine, incident("worker", without=injection.ONLY_ONE)])
    assert exit_code_of(outcomes) == 0
    assert next(conclusion(outcomes)) == "shop survives every fault."
