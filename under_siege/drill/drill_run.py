"""Plan and run a drill: inject each fault into each server in each round, and record every incident."""

import contextlib
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from common.errors import BadInputError, one_line
from under_siege.drill.faults import CONTROL, FAULTS, Fault
from under_siege.drill.injection import Need
from under_siege.drill.loaded_server import STEADY_CPU_S, USERS, ContextOf, compute_task, warm_server
from under_siege.drill.recovery_check import has_recovered
from under_siege.measure.plan import Plan, make_plan
from under_siege.measure.run_time import in_words
from under_siege.measure.session import Reporting, Session, run_session
from under_siege.paths import PACKAGE, environment_variable
from under_siege.record.case import Case, Value
from under_siege.record.record import CaseFailedError, Failure, Incident
from under_siege.record.result import Result
from under_siege.suite.selection import DRILL, refuse_unsupported
from under_siege.suite.suite import Suite

ANNOUNCED = 8  # divisor: after the first 1/8 of the incidents, the time for all of them is announced
Chain = list[tuple[Case, Incident]]


def drill_plan(
    suite: Suite, options: Sequence[str], axes: Mapping[str, Sequence[Value]], *, rounds: int, seed: int | None
) -> tuple[Plan, int]:
    """Return the plan of a drill, in which tasks have adjustable lengths, and its number of incidents.

    Raises:
        BadInputError: a drill does not support the suite; see also `make_plan`.
    """
    refuse_unsupported(DRILL, suite)
    if axes.get("task"):
        raise BadInputError("drill chooses tasks whose length fits each fault: remove --task")
    tasks = {"task": [compute_task(STEADY_CPU_S)]} if suite.has_task else {}
    no_ceiling = replace(suite, ceiling=None, axes={**suite.axes, "users": (USERS,)})
    plan = make_plan(no_ceiling, {**axes, **tasks}, time_s=None, rounds=rounds, seed=seed)
    return plan, sum(map(len, chains(plan, selected(options))))


def selected(options: Sequence[str]) -> list[Fault]:
    """Return the control and the faults that these values of --fault select; without values, return all faults."""
    return [fault for fault in FAULTS.values() if not options or {CONTROL, *options} & {fault.name, fault.option}]


def run_drill(
    plan: Plan,
    options: Sequence[str],
    reporting: Reporting,
) -> tuple[Result, int | None, bool]:
    """Inject the selected faults into each server, and save the result after each incident; see `run_session`."""

    async def work(session: Session) -> None:
        drill, began_s, count, is_announced = Drill(session), time.monotonic(), 0, False
        planned = list(chains(session.plan, selected(options)))
        total = sum(map(len, planned))
        for chain in planned:
            await drill.run_chain(chain)
            count += len(chain)
            if not is_announced and count >= total / ANNOUNCED:
                total_s, is_announced = (time.monotonic() - began_s) / count * total, True
                session.watcher.say(f"{total} incidents take {in_words(total_s, total_s)}")

    paths = [str(PACKAGE / "drill" / "task"), *filter(None, [os.environ.get("PYTHONPATH")])]
    with environment_variable("PYTHONPATH", os.pathsep.join(paths)):  # for drill_task
        return run_session(plan, reporting, work)


def chains(plan: Plan, faults: Sequence[Fault]) -> Iterator[Chain]:
    """Yield chains of incidents that share a server, round by round and in random order within a round.

    A fault that ends the server is the last of its chain; the other faults are distributed among the chains. The
    control comes first in its chain, before any fault has affected the server.
    """
    order = random.Random(plan.seed)  # noqa: S311 (not for secrets)
    for case_round in range(1, plan.rounds + 1):
        due = [fault for fault in faults if case_round == 1 or not fault.is_once]
        ending = [fault for fault in due if fault.ends_server]
        control = [fault for fault in due if fault.name == CONTROL]
        others = [fault for fault in due if fault not in (*control, *ending)]
        in_round = []
        for case in plan.cases:
            shuffled, count = order.sample(others, len(others)), max(1, len(ending))
            groups = [[*shuffled[index::count], *ending[index : index + 1]] for index in range(count)]
            groups[0] = [*control, *groups[0]]
            in_round += [[_incident(plan, case, fault, case_round) for fault in group] for group in groups if group]
        yield from order.sample(in_round, len(in_round))


def _incident(plan: Plan, case: Case, fault: Fault, case_round: int) -> tuple[Case, Incident]:
    title, values = plan.targets[case.server].title, dict(case.values)
    return case, Incident(server=case.server, title=title, values=values, fault=fault.name, round=case_round)


@dataclass(frozen=True, slots=True)
class Drill:
    """A drill that runs chains of incidents with the same inputs."""

    session: Session
    jobless: set[Case] = field(default_factory=set)  # cases whose server accepts no jobs

    async def run_chain(self, chain: Chain) -> None:
        """Inject the faults of a chain one by one into the same server; replace the server if it does not recover."""
        async with contextlib.AsyncExitStack() as stack:
            context_of: ContextOf | None = None
            for case, incident in chain:
                self.session.watcher.case_begins(f"round {incident.round}  {incident.fault}  {case.server}", 0.0)
                incident.without = self._why_not_applicable(case, FAULTS[incident.fault])
                if not incident.without:
                    context_of = await self._inject(case, incident, stack, context_of)
                if incident.without == Need.JOBS:
                    self.jobless.add(case)
                self.session.keep(incident)
                self.session.watcher.case_ends()

    def _why_not_applicable(self, case: Case, fault: Fault) -> str:
        lacking = {
            Need.PROCESS: bool(self.session.plan.targets[case.server].url),
            Need.TASKS: not case.task,
            Need.JOBS: case in self.jobless,
        }
        return next((need.value for need in fault.needs if lacking[need]), "")

    async def _inject(
        self, case: Case, incident: Incident, stack: contextlib.AsyncExitStack, context_of: ContextOf | None
    ) -> ContextOf | None:
        """Inject a fault and record the outcome; return None if the next fault needs a new server."""
        fault, began = FAULTS[incident.fault], False
        try:
            try:
                if context_of is None:
                    expected = self.session.expected_of(case)
                    inputs = (self.session.plan, case, expected, self.session.services, incident.round)
                    context_of = await stack.enter_async_context(warm_server(*inputs))
                began, context = True, context_of(incident)
                await fault.inject(context)
                if not fault.ends_server and incident.left_whole is None:
                    incident.left_whole = bool(incident.without) or await has_recovered(context)
            finally:
                if not incident.left_whole:
                    await stack.aclose()
        except CaseFailedError as failed:
            if not began or not incident.seen:  # once metrics are recorded, the error is an effect of the fault
                incident.failure = Failure(failed.code, str(failed))
        except Exception as error:  # a bug in the bench must not discard the results of the other incidents
            incident.failure = Failure("bench_error", f"internal error, please report it: {one_line(error)}")
        return context_of if incident.left_whole else None
