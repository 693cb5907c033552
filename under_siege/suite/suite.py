"""Define a suite: the targets to compare, the load, and the correct response."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from under_siege.load.body_rule import ANY
from under_siege.load.request import PONG, Backlog, Expect, Load, Ping, WarmUp, placeholders
from under_siege.record.case import Case, Value
from under_siege.record.result import MovedRoute, Required

READY_WITHIN_S = 15.0
DRAIN_LIMIT_S = 10.0
SERVICES = ("postgresql", "redis")  # services that `Target.needs` may contain, besides programs


class Kind(StrEnum):
    """The way in which a strategy runs a long task."""

    IN_LINE = "one after the other"
    SLICES = "in slices on one thread"
    GREENLETS = "a greenlet for each request"
    THREADS = "threads"
    PROCESSES = "processes"
    PREFORK = "processes started before any request"
    INTERPRETERS = "sub-interpreters"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A demo server, a command that starts a server, a server that is already running, or no server at all.

    A command, URL, environment or requirement may contain placeholders for axes. A command may also contain {host} and
    {port}.
    """

    AXES: ClassVar = ("task", "users", "python", "workers")

    name: str  # file stem; in a plan, with as many parent directories as needed to make it unique
    title: str
    path: Path | None = None  # a script that follows the server contract
    requires: str = ""  # the script's REQUIRES, such as "python>=3.14"
    kind: Kind = Kind.UNKNOWN
    axes: tuple[str, ...] = AXES  # axes on which the target depends
    command: tuple[str, ...] = ()
    command_if: tuple[str, ...] = ()  # arguments to add to the command if all axes that they name have a value
    url: str = ""  # address of the server, unless the bench chooses it
    environment: tuple[tuple[str, str], ...] = ()
    requirements: tuple[str, ...] = ()  # packages to install in a virtual environment for this target
    additions: tuple[str, ...] = ()  # packages to add beside those of its environment, without changing it
    needs: tuple[str, ...] = ()  # programs and services
    ready_within_s: float | None = None  # None: the value of the suite
    prepare: tuple[str, ...] = ()  # command to run in the target's environment before its first start
    reload: tuple[str, ...] = ()  # command that reloads the server; empty: SIGHUP does
    headers: tuple[tuple[str, str], ...] = ()  # headers required in each correct response
    warm_up: WarmUp | None = None  # None: the value of the suite
    requests_path: str = ""  # empty: the path of the suite
    defaults: tuple[tuple[str, Value], ...] = ()  # the only values of these axes, unless the user chooses others
    takes_jobs: bool = True  # False if the source code has no route for jobs

    @property
    def has_no_server(self) -> bool:
        """Return whether this target is a ceiling for which the users run the task without a server."""
        return not self.command and not self.url

    @property
    def number(self) -> int | None:
        digits = re.match(r"\d+", self.name)
        return int(digits[0]) if digits else None

    def command_for(self, case: Case) -> tuple[str, ...]:
        """Return the command for a case, without replacing placeholders."""
        has_values = all(case.get(name) is not None for name in placeholders(*self.command_if))
        return (*self.command, *self.command_if) if has_values else self.command


NO_SERVER = Target(
    "bare",
    "No server: the users run the task in threads of a few processes; their rate is the ceiling.",
    axes=("task", "users", "path", "python"),
)


@dataclass(frozen=True, slots=True)
class UserApplication:
    """An application that is measured without a suite file."""

    name: str  # module:name
    routes: tuple[str, ...] = ()  # such as `/report` or `POST /orders`
    environment: str = ""  # how its Python was found, such as `.venv`
    notes: tuple[str, ...] = ()  # what was chosen for the user
    copies: tuple[str, ...] = ()  # installed files that are imported instead of those in its folder
    needs_loop: bool = False  # whether its import needs a running event loop, which few servers have then


@dataclass(frozen=True, slots=True)
class Suite:
    targets: tuple[Target, ...]
    ceiling: Target | None
    load: Load = field(default_factory=Load)
    axes: dict[str, tuple[Value, ...]] = field(default_factory=dict)  # values to measure, by axis
    expect: Expect = field(default_factory=Expect)
    ping: Ping | None = PONG
    backlog: Backlog | None = None
    drain_limit_s: float = DRAIN_LIMIT_S
    prepare: tuple[str, ...] = ()  # command to run once before any server starts
    ready_within_s: float = READY_WITHIN_S
    title: str = ""
    source: str = ""  # the path of the suite file, as the user wrote it
    revisions: Mapping[str, Path] = field(default_factory=dict)  # folder of each revision; the base is first
    tolerance: float = 0.0  # by which share a metric of the new revision may be worse than that of the base
    ignored: tuple[str, ...] = ()  # files that git ignores, so that the base lacks them
    folder: Path | None = None  # working directory of the commands; None: that of the bench
    has_task: bool = True  # whether requests run a task of the bench, which can also run without a server
    required: tuple[Required, ...] = ()
    application: UserApplication | None = None  # None: the suite is a file, or strategies
    reference: Target | None = None  # is asked for the expected responses, although it is not measured
    route: MovedRoute | None = None  # that some targets answer in threads or processes
    keep_environment: bool = True  # whether the servers see settings that change them, such as WEB_CONCURRENCY

    @property
    def is_from_options(self) -> bool:
        """Return whether the options of the command line describe the responses, because no suite file does."""
        return self.application is not None or not (self.source or self.has_task)

    @property
    def finds_rule(self) -> bool:
        """Return whether the responses decide how they are compared, because neither a file nor an option says it.

        The fields that the user ignores are ignored beside those that differ.
        """
        return self.is_from_options and self.expect.rule.mode != ANY

    def right_statuses(self) -> set[int]:
        """Return the statuses of correct responses."""
        return {one.status for one in self.load.mix} or {self.expect.status}
