"""Define a case: a target and a value on each axis. A case identifies a measurement in plans, records and reports."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

Value = str | int
REVISION = "revision"  # the axis of `run --against`
WORKERS, THREADS = SEARCHABLE = ("workers", "threads")  # the axes whose value may be AUTO
PAUSE, ARRIVALS = PACES = ("pause", "arrivals")  # the axes that set when requests are sent
AUTO = "auto"  # let `run` find the best value


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter that may have several values in a run.

    Cases are compared only with cases that have the same values on the axes of the load (`of_load`), which describe the
    requests and the limits of the server. The axes of the work (`of_work`) determine how long a single response takes.
    All other axes describe how the target runs.
    """

    name: str
    template: str  # format of a label, such as `{} users`
    preposition: str  # word between a server and a value, such as `with`
    of_load: bool = False
    of_work: bool = False
    default_label: str = "none"  # label of a case without a value

    def label(self, value: Value) -> str:
        """Return the label of a value, such as `25 users` or `1 user`."""
        text = self.template.format(value)
        return text.removesuffix("s") if str(value) == "1" else text

    def suffix(self, value: Value) -> str:
        """Return the text after a server name, such as `on 3.14.0` or `with 4 workers`."""
        return f"{self.preposition} {value if self.name == 'python' else self.label(value)}"


_AXES = {
    axis.name: axis
    for axis in (
        Axis("task", "{}", "with", of_load=True, of_work=True),
        Axis("path", "{}", "at", of_load=True, of_work=True),
        Axis("users", "{} users", "with", of_load=True),
        Axis("style", "as {}", "with", of_load=True, default_label="waiting"),
        Axis(PAUSE, "pause {}", "with", of_load=True),
        Axis(ARRIVALS, "arrivals {}", "with", of_load=True),
        Axis("keep_alive", "keep-alive {}", "with", of_load=True),
        Axis("python", "Python {}", "on", of_work=True),
        Axis("workers", "{} workers", "with"),
        Axis("threads", "{} threads", "with"),
        Axis("cpus", "{} CPUs", "with", of_load=True),
        Axis("memory", "{} of memory", "with", of_load=True),
        Axis(REVISION, "{}", "at"),
    )
}


def axis(name: str) -> Axis:
    """Return a built-in axis, or one defined in a suite."""
    return _AXES.get(name) or Axis(name, f"{name} {{}}", "with")


@dataclass(frozen=True, slots=True)
class Case:
    server: str
    values: tuple[tuple[str, Value], ...]  # (axis, value), in the canonical order of `case_of`

    def get(self, name: str) -> Value | None:
        """Return the value on an axis, or None if the case does not depend on this axis."""
        return dict(self.values).get(name)

    @property
    def task(self) -> str:
        """Return the task, or an empty string if requests don't run a task of the bench."""
        return str(self.get("task") or "")

    @property
    def users(self) -> int:
        """Return the number of concurrent users, or 0 for a load without users (open loop)."""
        return int(self.get("users") or 0)

    @property
    def python(self) -> str:
        """Return the version of the Python that runs the server, or an empty string if the case has no value for it."""
        return str(self.get("python") or "")

    @property
    def load(self) -> tuple[tuple[str, Value], ...]:
        """Return the values that describe the requests."""
        return tuple(pair for pair in self.values if axis(pair[0]).of_load)

    @property
    def work(self) -> tuple[tuple[str, Value], ...]:
        """Return the values that determine how long a single response takes."""
        return tuple(pair for pair in self.values if axis(pair[0]).of_work)

    @property
    def job(self) -> tuple[tuple[str, Value], ...]:
        """Return the values in `work` that describe the request, not how the server runs."""
        return tuple(pair for pair in self.work if axis(pair[0]).of_load)

    @property
    def parameters(self) -> dict[str, Value]:
        """Return the values on all axes except task, users and python."""
        return {name: value for name, value in self.values if name not in ("task", "users", "python")}

    @property
    def sort_key(self) -> tuple[float, str, str]:
        """Return a key that sorts cases by the number in the server's name; servers without a number come last."""
        number = self.server.rpartition("/")[2].split("_")[0]
        return (int(number) if number.isdecimal() else math.inf), self.server, repr(self.values)

    def on(self, names: Collection[str]) -> tuple[tuple[str, Value], ...]:
        """Return the values on these axes."""
        return tuple(pair for pair in self.values if pair[0] in names)

    def without(self, names: Iterable[str]) -> Case:
        return Case(self.server, tuple(pair for pair in self.values if pair[0] not in names))

    def for_target(self, server: str, axes: Collection[str]) -> Case:
        """Return the corresponding case of another target, whose cases depend only on these axes."""
        return Case(server, self.on(axes))

    def covers(self, other: Case) -> bool:
        """Return whether the other case has all values of this case."""
        return all(pair in other.values for pair in self.values)


def case_of(server: str, values: Mapping[str, Value | None]) -> Case:
    """Return the case with these values, in a canonical order; `None` or an empty string means no value."""
    order = [*_AXES, *sorted(set(values) - set(_AXES))]
    return Case(server, tuple((name, value) for name in order if (value := values.get(name)) not in (None, "")))


def load_axes(cases: Collection[Case]) -> frozenset[str]:
    """Return the axes of the load on which two cases must have the same values to be compared.

    If there is only one server, its paths, styles and keep-alive settings are compared with each other. If each server
    has only one path, servers are compared even if their paths differ.
    """
    names = {name for case in cases for name, _ in case.load}
    paths: dict[str, set[Value | None]] = {}
    for case in cases:
        paths.setdefault(case.server, set()).add(case.get("path"))
    if len(paths) == 1:
        return frozenset(names - {"path", "style", "keep_alive"})
    return frozenset(names if any(len(of_server) > 1 for of_server in paths.values()) else names - {"path"})


class HasCase(Protocol):
    """A value that belongs to a case, such as a summary, a trace or a profile."""

    @property
    def case(self) -> Case: ...
