"""A target: what is started and listens, or the bare load with nothing in its way."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from common.model.case import Case


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
class Target:
    """A script that keeps the server contract; without a path it is no server at all."""

    AXES: ClassVar = ("task", "users", "python", "workers")

    name: str  # the stem of its file; in a plan with folders before it where that is needed to tell it from another
    title: str  # the first line of its docstring
    path: Path | None
    requires: str = ""  # its REQUIRES line, such as "python>=3.14"
    kind: Kind = Kind.UNKNOWN
    axes: tuple[str, ...] = AXES  # that what it does may depend on

    @property
    def number(self) -> int | None:
        """The number that its name begins with."""
        digits = re.match(r"\d+", self.name)
        return int(digits[0]) if digits else None

    def command(self, case: Case, python: str, host: str, port: int) -> Sequence[str]:
        """The words that start it."""
        words = [python, str(self.path), "--host", host, "--port", str(port), "--task", case.task]
        workers = case.get("workers")
        return words if workers is None else [*words, "--workers", str(workers)]
