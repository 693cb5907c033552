"""A case: a target at a value on every axis. All of it identifies the case in the plan, the record and the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Value = str | int


@dataclass(frozen=True, slots=True)
class Axis:
    """Anything that is varied.

    What is of the load says what is asked for, and cases that are asked for the same compete; anything else says how
    a target is run. What is of the work decides what one answer takes.
    """

    name: str
    words: str  # for a value of it
    joint: str  # between the name of a server and a value of it
    of_load: bool = False
    of_work: bool = False
    usual: str = "none"  # what a case without a value has

    def told(self, value: Value) -> str:
        """`25 users`, `1 user`."""
        words = self.words.format(value)
        return words.removesuffix("s") if value == 1 else words

    def behind(self, value: Value) -> str:
        """`on 3.14.0`, `with 4 workers`."""
        return f"{self.joint} {value if self.joint == 'on' else self.told(value)}"


_KNOWN = {
    axis.name: axis
    for axis in (
        Axis("task", "{}", "with", of_load=True, of_work=True),
        Axis("path", "{}", "at", of_load=True, of_work=True),
        Axis("users", "{} users", "with", of_load=True),
        Axis("style", "as {}", "with", of_load=True, usual="waiting"),
        Axis("keep_alive", "keep-alive {}", "with", of_load=True),
        Axis("python", "Python {}", "on", of_work=True),
        Axis("workers", "{} workers", "with"),
    )
}


def axis(name: str) -> Axis:
    """One that is known here, or one of a suite's own."""
    return _KNOWN.get(name) or Axis(name, f"{name} {{}}", "with")


@dataclass(frozen=True, slots=True)
class Case:
    """A point. Two cases are the same one if their server and all of their values are."""

    server: str  # its name
    values: tuple[tuple[str, Value], ...]  # (axis, value), in the order of `case_of`

    def get(self, name: str) -> Value | None:
        """Its value on an axis; None where it does not depend on that."""
        return dict(self.values).get(name)

    @property
    def task(self) -> str:
        """What is performed; empty where that is the server's own business."""
        return str(self.get("task") or "")

    @property
    def users(self) -> int:
        """How many ask at the same time; 0 where that isn't what the load is made of."""
        return int(self.get("users") or 0)

    @property
    def python(self) -> str:
        """The version that serves; empty where no Python of ours does."""
        return str(self.get("python") or "")

    @property
    def load(self) -> tuple[tuple[str, Value], ...]:
        """What is asked for: cases that have this in common compete."""
        return tuple(pair for pair in self.values if axis(pair[0]).of_load)

    @property
    def work(self) -> tuple[tuple[str, Value], ...]:
        """What a single answer takes depends on this."""
        return tuple(pair for pair in self.values if axis(pair[0]).of_work)

    @property
    def job(self) -> tuple[tuple[str, Value], ...]:
        """What a single request asks for, whatever serves it."""
        return tuple(pair for pair in self.work if axis(pair[0]).of_load)

    @property
    def parameters(self) -> dict[str, Value]:
        """Its values on all axes but those that every case has."""
        return {name: value for name, value in self.values if name not in ("task", "users", "python")}

    def without(self, names: Iterable[str]) -> Case:
        """The same, if these axes were none."""
        return Case(self.server, tuple(pair for pair in self.values if pair[0] not in names))

    def as_seen_by(self, server: str, names: Iterable[str]) -> Case:
        """The case of another target that depends on these axes only."""
        return Case(server, tuple(pair for pair in self.values if pair[0] in names))

    def covers(self, other: Case) -> bool:
        """Whether the other one has the same value wherever this one has any."""
        return all(pair in other.values for pair in self.values)


def case_of(server: str, values: Mapping[str, Value | None]) -> Case:
    """The case with these values, whatever their order; None is no value."""
    order = [*_KNOWN, *sorted(set(values) - set(_KNOWN))]
    return Case(server, tuple((name, value) for name in order if (value := values.get(name)) is not None))
