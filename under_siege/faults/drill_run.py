"""Conducting a drill: each fault for each server, in rounds, and every incident kept whatever becomes of it."""

import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common.errors import one_line
from under_siege.environments.services import Services
from under_siege.errors import CaseFailedError
from under_siege.faults import injection, job_faults
from under_siege.faults.fault import CONTROL, FAULTS
from under_siege.faults.fault_broker import PROGRAM
from under_siege.faults.fault_context import Scene
from under_siege.faults.server_fixture import Stage, stage
from under_siege.model.case import Case
from under_siege.model.record import Failure, Incident, Result
from under_siege.run.plan import Plan
from under_siege.run.progress_listener import ProgressListener
from under_siege.run.session import Keep, Meanwhile, run_and_save
from under_siege.targets.expectation import Expectations

_DRILLS: Mapping[str, Callable[[Scene], Awaitable[None]]] = {
    CONTROL: injection.nothing,
    "worker": injection.kill_a_worker,
    "stop": injection.stop,
    "stop_long": injection.stop_long,
    "leave": injection.leave,
    "overload": injection.overload,
    "endless": injection.endless,
    "slow": injection.slow,
    "malformed": injection.malformed,
    "jobs_worker": job_faults.kill_a_worker,
    "jobs_server": job_faults.kill_the_server,
    "jobs_server_apart": job_faults.kill_the_server,
    "jobs_broker": job_faults.kill_the_broker,
    "jobs_broker_disk": job_faults.kill_the_broker,
}
_PARTS = {
    "worker": ("worker", "jobs_worker"),
    "stop": ("stop", "stop_long"),
    "server": ("jobs_server", "jobs_server_apart"),
    "broker": ("jobs_broker", "jobs_broker_disk"),
}
_OF_JOBS = tuple(name for name in FAULTS if name.startswith("jobs_"))
_BROKER_ON_DISK = {"jobs_server_apart": False, "jobs_broker": False, "jobs_broker_disk": True}  # one that is apart
_ALONE = ("jobs_server", *_BROKER_ON_DISK)  # for a server of its own, and only where it takes jobs
_ONCE = (CONTROL, "stop_long", "malformed", *_OF_JOBS)  # they give the same every time
_LAST = ("stop", "stop_long", "endless")  # no server goes on after these
_OF_OUR_TASKS = ("stop_long", "endless", *_OF_JOBS)
_NOT_ELSEWHERE = (
    "worker",
    "stop",
    "stop_long",
    "leave",
    "malformed",
    *_OF_JOBS,
)  # what runs elsewhere is not ours to harm


def with_parts(names: Sequence[str]) -> list[str]:
    """The faults of these names, or all, the control first; one that has two parts as both."""
    chosen = {CONTROL, *(part for name in names or FAULTS for part in _PARTS.get(name, (name,)))}
    return [name for name in FAULTS if name in chosen]


def run_drill(
    plan: Plan,
    names: Sequence[str],
    out: Path,
    watcher: ProgressListener,
    command: Sequence[str],
    meanwhile: Meanwhile | None = None,
) -> tuple[Result, int | None, bool]:
    """Inject these faults into each server, and save the result after each incident; see `run_and_save`."""

    async def work(ready: Plan, _: Result, expectations: Expectations, services: Services, keep: Keep) -> None:
        await drill(ready, with_parts(names), expectations, services, watcher, keep)

    return run_and_save(plan, out, watcher, command, work, meanwhile)


Chain = list[tuple[Case, Incident]]


def chains(plan: Plan, names: Sequence[str]) -> Iterator[Chain]:
    """All that is to happen, round after round, each of them shuffled: what is in a chain happens to one server.

    Each chain has at its end a fault after which no server goes on; the others are dealt out among them. The control
    comes first, while the server is fresh. Then come those that have a server for themselves.
    """
    order = random.Random(plan.seed)  # noqa: S311 (not for secrets)
    for round_ in range(1, plan.rounds + 1):
        now = [name for name in names if round_ == 1 or name not in _ONCE]
        last, alone = [name for name in now if name in _LAST], [name for name in now if name in _ALONE]
        control = [name for name in now if name == CONTROL]
        others = [name for name in now if name not in (*control, *last, *alone)]
        of_this_round, after_it = [], []
        for case in plan.cases:
            shuffled, hands = order.sample(others, len(others)), max(1, len(last))
            dealt = [[*shuffled[hand::hands], *last[hand : hand + 1]] for hand in range(hands)]
            dealt[0] = [*control, *dealt[0]]
            of_this_round += [[(case, _incident(plan, case, name, round_)) for name in hand] for hand in dealt if hand]
            after_it += [[(case, _incident(plan, case, name, round_))] for name in alone]
        yield from order.sample(of_this_round, len(of_this_round))
        yield from order.sample(after_it, len(after_it))


def _incident(plan: Plan, case: Case, name: str, round_: int) -> Incident:
    title = plan.targets[case.server].title
    return Incident(server=case.server, title=title, values=dict(case.values), fault=name, round=round_)


@dataclass(frozen=True, slots=True)
class Drill:
    """What all incidents need."""

    plan: Plan
    expectations: Expectations
    services: Services
    watcher: ProgressListener
    keep: Callable[[Incident], None]
    jobless: set[Case] = field(default_factory=set)  # who has said so

    async def play(self, chain: Chain) -> None:
        """Let one fault after the other happen to a server, and start a fresh one if it does not recover."""
        async with contextlib.AsyncExitStack() as stack:
            on: Stage | None = None
            for case, incident in chain:
                self.watcher.case_begins(f"round {incident.round}  {incident.fault}  {case.server}", 0.0)
                incident.without = self._why_not(case, incident.fault)
                if not incident.without:
                    on = await self._happen(case, incident, stack, on)
                if incident.without == job_faults.NO_JOBS:
                    self.jobless.add(case)
                self.keep(incident)
                self.watcher.case_ends()

    def _why_not(self, case: Case, fault: str) -> str:
        if self.plan.targets[case.server].url and fault in _NOT_ELSEWHERE:
            return "it was not started here"
        if fault in _BROKER_ON_DISK and self.plan.targets[case.server].requires != PROGRAM:
            return "it has no broker"
        if fault in _OF_JOBS and case in self.jobless:
            return job_faults.NO_JOBS
        return "its tasks are its own" if not case.task and fault in _OF_OUR_TASKS else ""

    async def _happen(
        self, case: Case, incident: Incident, stack: contextlib.AsyncExitStack, on: Stage | None
    ) -> Stage | None:
        """The incident, whatever becomes of the server; gives that for the next one, if it is whole."""
        began = False
        try:
            try:
                if on is None:
                    expected, on_disk = (
                        self.plan.expected_of(case, self.expectations),
                        _BROKER_ON_DISK.get(incident.fault),
                    )
                    needs = (self.plan, case, expected, self.services, incident.round)
                    on = await stack.enter_async_context(stage(*needs, broker_on_disk=on_disk))
                began, scene = True, on.scene(incident)
                await _DRILLS[incident.fault](scene)
                if incident.fault not in (*_LAST, *_ALONE) and incident.left_whole is None:
                    incident.left_whole = bool(incident.without) or await on.has_recovered(scene)
            finally:
                if not incident.left_whole:
                    await stack.aclose()
        except CaseFailedError as failed:
            if not began or not incident.seen:  # a server that ends in a drill is what was asked for
                incident.failure = Failure(failed.code, str(failed))
        except Exception as error:  # a mistake of this program must not cost the other incidents
            incident.failure = Failure("bench_error", f"the bench itself failed, please report it: {one_line(error)}")
        return on if incident.left_whole else None


async def drill(
    plan: Plan,
    names: Sequence[str],
    expectations: Expectations,
    services: Services,
    watcher: ProgressListener,
    keep: Callable[[Incident], None],
) -> None:
    """Lets everything happen, and keeps each incident as soon as it is over."""
    one = Drill(plan, expectations, services, watcher, keep)
    for chain in chains(plan, names):
        await one.play(chain)
