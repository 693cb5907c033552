"""The plan: what is to be measured, as frozen values, checked before anything is started."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from common.harness.interpreter import Interpreter, interpreter
from common.strategies import Strategy, all_strategies, find_strategy

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Case:
    """A strategy with a task, a number of users and a Python."""

    strategy: Strategy
    task: str
    users: int
    python: Interpreter
    workers: int | None = None  # as asked for; None leaves it to the server


@dataclass(frozen=True, slots=True)
class Plan:
    """Every case, how long each siege lasts, and how often they all take their turn."""

    cases: tuple[Case, ...]
    time_s: float
    rounds: int
    seed: int

    def in_order(self) -> Iterator[tuple[int, Case]]:
        """Each round (from 1) and case in the order of measuring: every round shuffles its cases anew."""
        order = random.Random(self.seed)  # noqa: S311 (not for secrets)
        for round_ in range(1, self.rounds + 1):
            for case in order.sample(self.cases, len(self.cases)):
                yield round_, case


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
