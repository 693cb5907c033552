"""The plan: what is to be measured, as frozen values, checked before anything is started."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from common.harness.interpreter import Interpreter, interpreter
from common.record import BARE
from common.strategies import Strategy, all_strategies, find_strategy

T = TypeVar("T")
NO_SERVER = Strategy(BARE, "No server: every user computes in a process of its own; its rate is the ceiling.", Path())


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
    time_s: float
    rounds: int
    seed: int

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
    time_s: float,
    rounds: int,
    seed: int | None = None,
) -> Plan:
    """The plan for what was asked on the command line; no servers means all of them.

    Raises:
        BadInputError: there is no such server, or no such Python.
    """
    strategies = [find_strategy(name) for name in servers] if servers else all_strategies()
    interpreters = [interpreter(path) for path in _distinct(pythons)]
    combinations = itertools.product(_distinct(strategies), _distinct(tasks), _distinct(users), interpreters)
    cases = tuple(Case(*combination, workers) for combination in combinations)
    return Plan(cases, time_s, rounds, random.randrange(2**32) if seed is None else seed)  # noqa: S311


def _distinct(things: Sequence[T]) -> list[T]:
    return list(dict.fromkeys(things))
