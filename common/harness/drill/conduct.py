"""Conducting a drill: each fault for each server, in rounds, and every incident kept whatever becomes of it."""

import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from common.errors import one_line
from common.harness.drill import faults
from common.harness.drill.scene import Scene
from common.harness.drill.stage import Stage, stage
from common.harness.failures import CaseFailedError
from common.harness.plan import Plan
from common.harness.ready.expectation import Expectations
from common.harness.ready.services import Services
from common.harness.watcher import Watcher
from common.model.case import Case
from common.model.fault import CONTROL, FAULTS
from common.model.record import Failure, Incident

_DRILLS: Mapping[str, Callable[[Scene], Awaitable[None]]] = {
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
_ONCE = (CONTROL, "stop_long", "malformed")  # they give the same every time
_LAST = ("stop", "stop_long", "endless")  # no server goes on after these
_OF_OUR_TASKS = ("stop_long", "endless")
_NOT_ELSEWHERE = ("worker", "stop", "stop_long", "leave", "malformed")  # what runs elsewhere is not ours to harm


def with_parts(names: Sequence[str]) -> list[str]:
    """The faults of these names, or all, the control first; one that has two parts as both."""
    chosen = [CONTROL, *(names or FAULTS)]
    return [name for name in FAULTS if name in chosen or (name == "stop_long" and "stop" in chosen)]


Chain = list[tuple[Case, Incident]]


def chains(plan: Plan, names: Sequence[str]) -> Iterator[Chain]:
    """All that is to happen, round after round, each of them shuffled: what is in a chain happens to one server.

    Each chain has at its end a fault after which no server goes on; the others are dealt out among them.
    """
    order = random.Random(plan.seed)  # noqa: S311 (not for secrets)
    for round_ in range(1, plan.rounds + 1):
        now = [name for name in names if round_ == 1 or name not in _ONCE]
        last, others = [name for name in now if name in _LAST], [name for name in now if name not in _LAST]
        of_this_round = []
        for case in plan.cases:
            shuffled, hands = order.sample(others, len(others)), max(1, len(last))
            dealt = [[*shuffled[hand::hands], *last[hand : hand + 1]] for hand in range(hands)]
            of_this_round += [[(case, _incident(plan, case, name, round_)) for name in hand] for hand in dealt if hand]
        yield from order.sample(of_this_round, len(of_this_round))


def _incident(plan: Plan, case: Case, name: str, round_: int) -> Incident:
    title = plan.targets[case.server].title
    return Incident(server=case.server, title=title, values=dict(case.values), fault=name, round=round_)


@dataclass(frozen=True, slots=True)
class Drill:
    """What all incidents need."""

    plan: Plan
    expectations: Expectations
    services: Services
    watcher: Watcher
    keep: Callable[[Incident], None]

    async def play(self, chain: Chain) -> None:
        """Lets one after the other happen to a server, and to a fresh one where it is not whole after one of them."""
        async with contextlib.AsyncExitStack() as stack:
            on: Stage | None = None
            for place, (case, incident) in enumerate(chain, 1):
                self.watcher.case_begins(f"round {incident.round}  {incident.fault}  {case.server}", 0.0)
                incident.without = self._why_not(case, incident.fault)
                if not incident.without:
                    on = await self._happen(case, incident, stack, on, is_last=place == len(chain))
                self.keep(incident)
                self.watcher.case_ends()

    def _why_not(self, case: Case, fault: str) -> str:
        if self.plan.targets[case.server].url and fault in _NOT_ELSEWHERE:
            return "it was not started here"
        return "its tasks are its own" if not case.task and fault in _OF_OUR_TASKS else ""

    async def _happen(
        self, case: Case, incident: Incident, stack: contextlib.AsyncExitStack, on: Stage | None, *, is_last: bool
    ) -> Stage | None:
        """The incident, whatever becomes of the server; gives that for the next one, if it is whole."""
        began = False
        try:
            try:
                if on is None:
                    expected = self.expectations[case.work]
                    entered = stage(self.plan, case, expected, self.services, incident.round)
                    on = await stack.enter_async_context(entered)
                began, scene = True, on.scene(incident)
                await _DRILLS[incident.fault](scene)
                if incident.fault not in _LAST and incident.left_whole is None and not is_last:
                    incident.left_whole = await on.is_whole(scene)
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
    watcher: Watcher,
    keep: Callable[[Incident], None],
) -> None:
    """Lets everything happen, and keeps each incident as soon as it is over."""
    one = Drill(plan, expectations, services, watcher, keep)
    for chain in chains(plan, names):
        await one.play(chain)
