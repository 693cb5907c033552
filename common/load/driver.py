"""What a load tool has to be able to say: what starts it, what it gives, and what its output means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Arrival:
    """An answer that came, as the tool tells it."""

    user: int  # its number for the user who asked
    status: int
    took_s: float
    size_bytes: int


class Driver(Protocol):
    """One load tool. Nothing here starts anything."""

    @property
    def name(self) -> str:
        """Of its program."""

    @property
    def step_s(self) -> float:
        """In which it tells how long a request took."""

    @property
    def packages(self) -> Mapping[str, str]:
        """The package that brings it, for each package manager that has one."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The files that it wants to find in its home, by their paths there."""

    def command(self, program: str, home: Path, users: int, time_s: float, url: str) -> Sequence[str]:
        """The words that start so many users without a pause, for about so long. It is ended by SIGTERM."""

    def version_command(self, program: str) -> Sequence[str]:
        """The words that make it say which it is."""

    def version(self, said: str) -> str:
        """From what it says then; such as `4.0.7`."""

    def arrival(self, line: str) -> Arrival | None:
        """What a line of its stdout means; None if it is no answer."""

    def failures(self, report: str, statuses: Sequence[int]) -> int:
        """How many requests got no answer at all, given the end of its stderr and the statuses of all answers."""
