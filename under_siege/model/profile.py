"""Define the profile of a server: which stacks its threads had, and how often."""

from typing import Annotated

import msgspec
from msgspec import Meta

from under_siege.model.case import Case, Value, case_of
from under_siege.model.result_file import LARGEST, LARGEST_INDEX, LONGEST_S

SmallCount = Annotated[int, Meta(ge=0, le=LARGEST_INDEX)]
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_S)]


class Frames(msgspec.Struct):
    """The distinct frames of a profile."""

    function: list[str] = []
    file: list[str] = []  # relative to the application, or to site-packages
    line: list[SmallCount] = []
    kind: list[str] = []  # "app", "async" (a coroutine function of the application), or "library"
    source: list[str] = []  # the line itself, only of the application


class Stacks(msgspec.Struct):
    """The distinct stacks of a profile, and in how many samples each occurred."""

    pid: list[Count] = []
    thread: list[str] = []
    frames: list[list[SmallCount]] = []  # indices into `Frames`, the outermost first
    wall: list[SmallCount] = []  # in any state
    cpu: list[SmallCount] = []  # running on a CPU, or ready to
    gil: list[SmallCount] = []  # holding the GIL


class Profile(msgspec.Struct, kw_only=True):
    """Sampled stacks of all Python processes of a server under load."""

    server: str
    title: str
    values: dict[str, Value]  # by axis: task, users, python, ...
    frames: Frames = msgspec.field(default_factory=Frames)
    stacks: Stacks = msgspec.field(default_factory=Stacks)
    samples: dict[str, SmallCount] = {}  # how often each thread was sampled: "wall", "cpu" and "gil"
    listeners: list[Count] = []  # the processes that listen on the port of the server; empty if unknown
    waits: dict[int, list[SmallCount]] = {}  # by process: looks at its main thread, and how many found it at a lock
    answers: Count = 0
    load_s: Seconds = 0.0
    other_work: Share = 0.0  # of all CPUs, used by other processes, including the load tool and the profiler
    failure: str = ""  # why there are no stacks

    @property
    def case(self) -> Case:
        return case_of(self.server, self.values)

    @property
    def users(self) -> int:
        return int(self.values.get("users") or 0)
