"""Define the profile of a server: the sampled stacks of its threads, and how often each stack occurred."""

from typing import Annotated

import msgspec
from msgspec import Meta

from under_siege.record.case import Case, Value, case_of
from under_siege.record.result_file import LARGEST, LARGEST_INDEX, LONGEST_S

SmallCount = Annotated[int, Meta(ge=0, le=LARGEST_INDEX)]
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Positive = Annotated[int, Meta(ge=1, le=LARGEST_INDEX)]
Index = Annotated[int, Meta(ge=-1, le=LARGEST_INDEX)]  # the number of a CPU or user; -1: unknown
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_S)]


class Frames(msgspec.Struct):
    """The distinct frames of a profile."""

    function: list[str] = []
    file: list[str] = []  # paths relative to the application or to site-packages
    line: list[SmallCount] = []
    kind: list[str] = []  # as in `sampler.Frame`
    source: list[str] = []  # text of the lines; empty for libraries


class Stacks(msgspec.Struct):
    """The distinct stacks of a profile, and the number of samples of each."""

    pid: list[Count] = []
    thread: list[str] = []
    frames: list[list[SmallCount]] = []  # indices into `Frames`, the outermost first
    wall: list[SmallCount] = []  # samples in any state
    cpu: list[SmallCount] = []  # samples of threads on a CPU, or ready to run
    gil: list[SmallCount] = []  # samples of threads that hold the GIL


class Profile(msgspec.Struct, kw_only=True):
    """Sampled stacks of all Python processes of a server under load."""

    server: str
    title: str
    values: dict[str, Value]  # by axis: task, users, python, ...
    frames: Frames = msgspec.field(default_factory=Frames)
    stacks: Stacks = msgspec.field(default_factory=Stacks)
    samples: dict[str, SmallCount] = {}  # how often each thread was sampled, by kind: "wall", "cpu" and "gil"
    listeners: list[Count] = []  # ids of the processes that listen on the server's port; empty if unknown
    waits: dict[int, list[SmallCount]] = {}  # by process id: [main-thread samples, those waiting for a lock]
    answers: Count = 0
    load_s: Seconds = 0.0
    other_work: Share = 0.0  # share of the CPUs that other processes used, including the load tool and the profiler
    endpoint: Frames = msgspec.field(default_factory=Frames)  # the `def` and responses of a route
    failure: str = ""  # why there are no stacks

    @property
    def case(self) -> Case:
        return case_of(self.server, self.values)

    @property
    def users(self) -> int:
        return int(self.values.get("users") or 0)
