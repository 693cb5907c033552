"""A target: what is started and listens, what runs elsewhere, or the bare load with nothing in its way."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from under_siege.model.case import Case

SERVICES = ("postgresql", "redis")  # of what a target may need; the rest are programs and libraries
LONGEST_S = 86_400.0
_UNITS_S = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_NAME = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def names_in(*texts: str) -> list[str]:
    """The names in braces, each once; other braces are just braces."""
    return list(dict.fromkeys(name for text in texts for name in _NAME.findall(text)))


def filled(text: str, values: Mapping[str, object]) -> str:
    """The text with the values of those names that have one."""
    return _NAME.sub(lambda found: str(values.get(found[1], found[0])), text)


def filled_words(words: Iterable[str], values: Mapping[str, object]) -> list[str]:
    """The same for each word."""
    return [filled(word, values) for word in words]


def seconds(text: str) -> float | None:
    """Return the seconds of `30`, `30s`, `500ms`, `2m` or `1h`; None if it is no time, or not within a day."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|)", text, re.ASCII)
    value_s = float(found[1]) * _UNITS_S[found[2]] if found else 0.0
    return value_s if 0 < value_s <= LONGEST_S else None


class Kind(StrEnum):
    """How a strategy runs a long task."""

    IN_LINE = "one after the other"
    SLICES = "in slices on one thread"
    GREENLETS = "a greenlet for each request"
    THREADS = "threads"
    PROCESSES = "processes"
    PREFORK = "processes that are there before any request"
    INTERPRETERS = "sub-interpreters"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of a load: so many requests, or for so long; neither: none."""

    requests: int | None = None
    time_s: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A script that keeps the server contract, any command, or an address; without all of them no server at all."""

    AXES: ClassVar = ("task", "users", "python", "workers")

    name: str  # the stem of its file; in a plan with folders before it where that is needed to tell it from another
    title: str  # the first line of its docstring
    path: Path | None = None  # of a script that keeps the contract
    requires: str = ""  # its REQUIRES line, such as "python>=3.14"
    kind: Kind = Kind.UNKNOWN
    axes: tuple[str, ...] = AXES  # that what it does may depend on
    command: tuple[str, ...] = ()  # with places, a port and axes in braces
    command_if: tuple[str, ...] = ()  # further words, where all axes that they name have a value
    url: str = ""  # where it listens, if that is not for the bench to say
    environment: tuple[tuple[str, str], ...] = ()  # variables, with axes in braces
    requirements: tuple[str, ...] = ()  # packages of an environment of its own, with axes in braces
    needs: tuple[str, ...] = ()  # programs and services
    ready_within_s: float | None = None  # None: as the suite says for all
    prepare: tuple[str, ...] = ()  # a command that has to have been run in its environment, with axes in braces
    headers: tuple[tuple[str, str], ...] = ()  # that each right answer of it has
    warm_up: Amount | None = None  # None: as the suite says for all
    takes_jobs: bool = True  # as far as is known

    @property
    def is_bare(self) -> bool:
        """Whether it is no server at all."""
        return not self.command and not self.url

    @property
    def number(self) -> int | None:
        """The number that its name begins with."""
        digits = re.match(r"\d+", self.name)
        return int(digits[0]) if digits else None

    def words(self, case: Case) -> tuple[str, ...]:
        """What starts it, with the axes of the case still in braces."""
        known = all(case.get(name) is not None for name in names_in(*self.command_if))
        return (*self.command, *self.command_if) if known else self.command
