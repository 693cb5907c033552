"""Conducting a drill: each fault for each server, in rounds, and every incident kept whatever becomes of it."""

import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

from common.errors import one_line
from common.harness.drill import faults
from common.harness.drill.scene import Scene, scene, told_tasks
from common.harness.failures import CaseFailedError
from common.harness.plan import Plan
from common.harness.ready.expectation import Expectation, Expectations
from common.harness.ready.services import Services
from common.harness.watcher import Watcher
from common.model.case import Case, Value
from common.model.fault import CONTROL, FAULTS
from common.model.record import Failure, Incident

_DRILLS: Mapping[str, Callable[[Scene, Path], Awaitable[None]]] = {
    CONTROL: faults.nothing,
    "worker": faults.kill_a_worker,
    "stop": faults.stop,
    "stop_long": faults.stop_long,
    "leave": faults.leave,
    "overload": faults.overload,
    "endless": faults.endless,
    "slow": faults.slow,
    "malformed": faults.malformed,
}
_MODULE = "common.alone.drill"
STEADY = f"{_MODULE}:compute(0.02)"  # the task of most faults
TASKS = {
    "stop": f"{_MODULE}:compute(0.2)",
    "stop_long": f"{_MODULE}:compute(0.2)",
    "leave": f"{_MODULE}:compute(0.3)",
    "malformed": f"{_MODULE}:compute(0.001)",
}
_ONCE = (CONTROL, "stop_long", "malformed")  # they give the same every time
_OF_OUR_TASKS = ("stop_long", "endless")
_NOT_ELSEWHERE = ("worker", "stop", "stop_long", "leave", "malformed")  # what runs elsewhere is not ours to harm


def tasks_for(names: Sequence[str]) -> list[Value]:
    """The tasks that the servers perform for these faults."""
    return list(dict.fromkeys(TASKS.get(name, STEADY) for name in names))


def with_parts(names: Sequence[str]) -> list[str]:
    """The faults of these names, or all, the control first; one that has two parts as both."""
    chosen = [CONTROL, *(names or FAULTS)]
    return [name for name in FAULTS if name in chosen or (name == "stop_long" and "stop" in chosen)]


def incidents(plan: Plan, names: Sequence[str]) -> Iterator[tuple[Case, Incident]]:
    """All that is to happen, round after round, each of them shuffled."""
    order = random.Random(plan.seed)  # noqa: S311 (not for secrets)
    for round_ in range(1, plan.rounds + 1):
        happening = [
            (case, name)
            for name in names
            for case in plan.cases
            if (not case.task or case.task == TASKS.get(name, STEADY)) and (round_ == 1 or name not in _ONCE)
        ]
        for case, name in order.sample(happening, len(happening)):
            values = dict(case.values)
            title = plan.targets[case.server].title
            yield case, Incident(server=case.server, title=title, values=values, fault=name, round=round_)


async def drill(
    plan: Plan,
    names: Sequence[str],
    expectations: Expectations,
    services: Services,
    watcher: Watcher,
    keep: Callable[[Incident], None],
) -> None:
    """Lets everything happen, and keeps each incident as soon as it is over."""
    for case, incident in incidents(plan, names):
        watcher.case_begins(f"round {incident.round}  {incident.fault}  {case.server}", 0.0)
        target = plan.targets[case.server]
        if target.url and incident.fault in _NOT_ELSEWHERE:
            incident.without = "it was not started here"
        elif not case.task and incident.fault in _OF_OUR_TASKS:
            incident.without = "its tasks are its own"
        else:
            await _happen(plan, case, expectations[case.work], services, incident)
        keep(incident)
        watcher.case_ends()


async def _happen(plan: Plan, case: Case, expected: Expectation, services: Services, incident: Incident) -> None:
    """The incident, whatever becomes of the server."""
    began = False
    try:
        with told_tasks() as folder:
            async with scene(plan, case, expected, services, incident) as one:
                began = True
                await _DRILLS[incident.fault](one, folder)
    except CaseFailedError as failed:
        if not began or not incident.seen:  # a server that ends in a drill is what was asked for
            incident.failure = Failure(failed.code, str(failed))
    except Exception as error:  # a mistake of this program must not cost the other incidents
        incident.failure = Failure("bench_error", f"the bench itself failed, please report it: {one_line(error)}")
