"""The plan: what is to be measured, as frozen values, checked before anything is started."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from common.contract import unmet
from common.errors import BadInputError
from common.harness.ready.interpreter import Interpreter, each_once, interpreter, told_apart
from common.harness.ready.strategies import Strategy, all_strategies, find_strategy
from common.model.record import BARE, LeftOut

T = TypeVar("T")
NO_SERVER = Strategy(
    BARE, "No server: the users compute in threads of a few processes; their rate is the ceiling.", Path()
)


@dataclass(frozen=True, slots=True)
class Case:
    """A strategy with a task, a number of users and a Python."""

    strategy: Strategy
    task: str
    users: int
    python: Interpreter
    workers: int | None = None  # as asked for; None leaves it to the server

    def setting(self) -> tuple[str, int, str]:
        """What it has in common with the cases that it is compared with."""
        return self.task, self.users, self.python.version


@dataclass(frozen=True, slots=True)
class Plan:
    """Every case, how long each siege lasts, and how often they all take their turn."""

    cases: tuple[Case, ...]
    time_s: float | None  # None: as long as each case needs
    rounds: int
    seed: int
    left_out: tuple[LeftOut, ...] = ()  # what can't run with the Pythons at hand

    def in_order(self) -> Iterator[list[Case]]:
        """The cases of round after round: every round shuffles them anew, the bare ones among them."""
        order = random.Random(self.seed)  # noqa: S311 (not for secrets)
        everything = [*self.bare_cases(), *self.cases]
        for _ in range(self.rounds):
            yield order.sample(everything, len(everything))

    def turns(self) -> int:
        """How many measurements there are at the most."""
        return self.rounds * (len(self.bare_cases()) + len(self.cases))

    def bare_cases(self) -> list[Case]:
        """The case without a server for each task, number of users and Python."""
        return _distinct([replace(case, strategy=NO_SERVER, workers=None) for case in self.cases])


def make_plan(
    servers: Sequence[str],
    tasks: Sequence[str],
    users: Sequence[int],
    pythons: Sequence[str],
    workers: int | None,
    *,
    time_s: float | None,
    rounds: int,
    seed: int | None = None,
) -> Plan:
    """The plan for what was asked on the command line; no servers means all of them.

    Raises:
        BadInputError: there is no such server, or no such Python, or no server that can run with it.
    """
    strategies = _named_apart(_distinct([find_strategy(name) for name in servers] if servers else all_strategies()))
    interpreters = told_apart(each_once([interpreter(path) for path in _distinct(pythons)]))
    left_out = tuple(
        LeftOut(strategy.stem, strategy.title, python.version, why)
        for strategy, python in itertools.product(strategies, interpreters)
        if (why := cannot_run(strategy, python))
    )
    combinations = itertools.product(strategies, _distinct(tasks), _distinct(users), interpreters)
    cases = tuple(Case(*one, workers) for one in combinations if not cannot_run(one[0], one[-1]))
    if not cases:
        raise BadInputError("; ".join(f"{one.server} {one.reason}" for one in left_out))
    return Plan(cases, time_s, rounds, random.randrange(2**32) if seed is None else seed, left_out)  # noqa: S311


def _named_apart(strategies: list[Strategy]) -> list[Strategy]:
    """The same, with as many folders before a name as it takes to tell it from the others, and from no server."""
    named = {one: one.path.with_suffix("").as_posix() for one in strategies}
    return [
        replace(one, stem=_least_name(one, [f"/{BARE}", *(named[other] for other in strategies if other != one)]))
        for one in strategies
    ]


def _least_name(strategy: Strategy, others: list[str]) -> str:
    parts = strategy.path.with_suffix("").parts
    names = ("/".join(parts[-count:]) for count in range(1, len(parts)))
    return next((name for name in names if not any(other.endswith(f"/{name}") for other in others)), str(strategy.path))


def cannot_run(strategy: Strategy, python: Interpreter) -> str:
    """Why the strategy can't run with that Python, and what to do about it; empty if it can."""
    lacking = unmet(strategy.requires, python.minor)
    return f"{lacking}: run it with --python PATH of such a one" if lacking else ""


def _distinct(things: Sequence[T]) -> list[T]:
    return list(dict.fromkeys(things))
