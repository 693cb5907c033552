"""What a drill measures after clients disconnect, with a simulated server and clock."""

import asyncio
from types import SimpleNamespace

import pytest
from simulated_record import record_of

from under_siege.drill import injection, loaded_server
from under_siege.drill.faults import HURT, OK
from under_siege.drill.outcome_summary import fault_outcomes
from under_siege.record.record import Incident
from under_siege.record.requests import CORRECT
from under_siege.suite.expected_response import Expectation

TASK_S, TASK_CPU_S, TASK_BYTES = 1.0, 0.2, 1_000_000


class SimulatedServer:
    """A server whose tasks take TASK_S. A task of a client that has left goes on, or ends at once."""

    def __init__(self, *, goes_on: bool, streams: bool) -> None:
        self.now_s, self.goes_on, self.streams = 100.0, goes_on, streams
        self.spans: list[tuple[float, float]] = []  # when each task began and ended

    def cpu_s(self) -> float:
        spent_s = sum(max(0.0, min(end_s, self.now_s) - begin_s) for begin_s, end_s in self.spans)
        return spent_s * TASK_CPU_S / TASK_S

    def memory_bytes(self) -> int:
        return TASK_BYTES * sum(begin_s <= self.now_s < end_s for begin_s, end_s in self.spans)

    def serve(self, requests: int, stay_s: float = TASK_S) -> None:
        lasts_s = TASK_S if self.goes_on else stay_s
        self.spans += [(self.now_s, self.now_s + lasts_s)] * requests
        self.now_s += stay_s

    async def send(self, *_: object, **__: object) -> str:
        self.serve(1)
        return CORRECT

    async def disconnect(self, count: int, stay_s: float) -> Expectation:
        self.serve(count, stay_s)
        return Expectation(b"", TASK_S, TASK_CPU_S)

    async def gets_a_stream(self, _: float) -> bool:
        return self.streams


def outcome_of(fault: str, server: SimulatedServer, monkeypatch: pytest.MonkeyPatch):
    incident = Incident(server="shop", title="", values={"users": 8}, fault=fault, round=1)
    tasks = SimpleNamespace(started=lambda: 0)
    context = loaded_server.FaultContext(
        SimpleNamespace(pid=1), None, server, tasks, record_of("shop"), 0, keep_alive=False, incident=incident
    )

    async def is_idle(cpus: float = loaded_server.IDLE_CPUS) -> bool:
        before_s, server.now_s = server.cpu_s(), server.now_s + loaded_server.IDLE_S
        return server.cpu_s() - before_s < cpus * loaded_server.IDLE_S

    for name, stand_in in (("cpu_s", server.cpu_s), ("memory_bytes", server.memory_bytes), ("is_idle", is_idle)):
        monkeypatch.setattr(context, name, stand_in)
    for module in (injection, loaded_server):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: server.now_s))
    inject = {"leave": injection.disconnect_clients, "leave_streams": injection.leave_streams}[fault]
    asyncio.run(inject(context))
    (outcome,) = fault_outcomes([incident])
    return outcome


@pytest.mark.parametrize("goes_on", [True, False])
def test_the_rest_of_abandoned_streams_is_wasted_if_they_go_on(goes_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    server = SimulatedServer(goes_on=goes_on, streams=True)
    outcome = outcome_of("leave_streams", server, monkeypatch)
    rest_s = injection.STREAMS * TASK_CPU_S / 2
    assert outcome.figures["rest_cpu_s"] == pytest.approx(rest_s)
    assert outcome.figures["cpu_s"] == pytest.approx(rest_s if goes_on else 0)
    assert outcome.figures["on_s"] == pytest.approx(TASK_S / 2 if goes_on else 0, abs=0.15)
    assert outcome.mark == (HURT if goes_on else OK)
    assert outcome_of("leave", server, monkeypatch).without == injection.Need.WHOLE


@pytest.mark.parametrize("goes_on", [True, False])
def test_the_tasks_of_disconnected_clients_are_wasted_if_they_go_on(
    goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = SimulatedServer(goes_on=goes_on, streams=False)
    outcome = outcome_of("leave", server, monkeypatch)
    all_s = injection.LEAVERS * TASK_CPU_S
    assert outcome.figures["asked_cpu_s"] == pytest.approx(all_s)
    assert outcome.figures["cpu_s"] == pytest.approx(all_s if goes_on else all_s * injection.STAY_S / TASK_S)
    assert outcome.figures["next_s"] == pytest.approx(TASK_S)
    assert outcome.mark == (HURT if goes_on else OK)
    assert outcome_of("leave_streams", server, monkeypatch).without == injection.Need.STREAM
