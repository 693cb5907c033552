"""Group the sampled stacks by the function that takes the time, and determine what this function does.

A function is only called CPU-bound, waiting, or free of the GIL if its samples leave no doubt.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from under_siege.profile.sampler import Frame

CPU, CPU_GIL, CPU_FREE = "CPU-bound", "CPU-bound, holds the GIL", "CPU-bound, without the GIL"
FOR_GIL, LOCK = "CPU-bound, waits for the GIL", "waits for a lock"
WAITS, FOR_THREAD = "blocking I/O", "waits for another thread"
UNKNOWN = "too few samples to tell whether it is CPU-bound or waits"
ON_CPU = {CPU, CPU_GIL, CPU_FREE}
LOGGING, SERIALIZATION, JINJA, MULTIPART, HOPS = (
    "logging",
    "serialization",
    "Jinja",
    "multipart parsing",
    "thread hops, iterate_in_threadpool",
)
_PURPOSES = {  # what the frames of libraries do; file and function
    LOGGING: re.compile(r"^logging/"),
    JINJA: re.compile(r"^jinja2/"),
    MULTIPART: re.compile(r"^(python_)?multipart/|^starlette/formparsers"),
    SERIALIZATION: re.compile(
        r"(^|/)(json|orjson|ujson|simplejson|msgspec|pickle)\b|serializ|jsonable_encoder|pydantic", re.I
    ),
    HOPS: re.compile(r"StreamingResponse\.stream_response$| iterate_in_threadpool$"),
}
_HOLDS_GIL = {SERIALIZATION, JINJA}  # their code, in Python or C, never releases the GIL
_IDLE = re.compile(r"^(selectors|asyncio/(base_events|runners)|uvloop/|gevent/hub|select)")
_LOCK = re.compile(r"^with .*(lock|mutex|semaphore)\w*(\(.*\))?:|lock\w*\.acquire\(|semaphore\w*\.acquire\(", re.I)
_STDLIB_CALLERS = re.compile(r"^(socket|ssl|http/|urllib/|selectors|threading|queue|contextlib|functools|_)")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Sampled:
    """A stack of one thread, and the shares of time spent in it: in total, on a CPU, and with the GIL."""

    pid: int
    thread: str
    frames: tuple[Frame, ...]  # only those called by the event loop or the server
    wall: float
    cpu: float
    gil: float

    @property
    def own(self) -> Frame | None:
        """Return the innermost frame of the application, or None if the stack has none."""
        return next((frame for frame in reversed(self.frames) if frame.kind != "library"), None)

    @property
    def callees(self) -> tuple[Frame, ...]:
        """Return the frames called by the innermost application frame, or all frames if there is no such frame."""
        own = [index for index, frame in enumerate(self.frames) if frame.kind != "library"]
        return self.frames[own[-1] + 1 :] if own else self.frames

    @property
    def named(self) -> Frame | None:
        """Return the innermost application frame, or else the outermost library frame with a known purpose, or None."""
        return self.own or next((frame for frame in self.frames if purpose_of([frame])), None)

    @property
    def is_at_lock(self) -> bool:
        return bool(self.frames) and self.frames[-1].file.startswith(("threading", "queue"))

    @property
    def is_idle(self) -> bool:
        """Return whether an event loop with this stack waits for events."""
        return not self.own and (not self.frames or bool(_IDLE.match(self.frames[-1].file)))


@dataclass(frozen=True, slots=True, eq=False)
class Hotspot:
    """A function that takes time, and what it does."""

    frame: Frame  # its most frequent line
    wall: float  # mean number of threads in the function
    state: str
    purpose: str  # a key of `_PURPOSES`, or empty
    detail: str  # the purpose, or else the library or call that takes the time
    stacks: list[Sampled]

    @property
    def how(self) -> str:
        if self.purpose in (MULTIPART, HOPS):
            return self.purpose
        state = "awaited" if self.is_in_steps else self.state
        return f"{state} ({self.detail})" if self.detail else state

    @property
    def entry(self) -> Frame | None:
        """Return the outermost application function that leads to this one, or None if it is this function itself."""
        entries = [next(frame for frame in each.frames if frame.kind != "library") for each in self.stacks if each.own]
        entry = Counter(entries).most_common(1)[0][0] if entries else self.frame
        return entry if (entry.file, entry.name) != (self.frame.file, self.frame.name) else None

    @property
    def is_background_task(self) -> bool:
        return any(frame.file.endswith("starlette/background.py") for stack in self.stacks for frame in stack.frames)

    @property
    def is_awaited(self) -> bool:
        """Return whether the time is spent in a library's coroutine that the application awaits."""
        return total([stack for stack in self.stacks if stack.own and stack.own.kind == "await"]) > 0.5 * self.wall

    @property
    def is_in_steps(self) -> bool:
        """Return whether other requests may run between the steps of this work, so that it is not one long block."""
        is_one_step = self.purpose in (LOGGING, SERIALIZATION, JINJA) or total(self.stacks, "cpu") < 0.1 * self.wall
        return self.purpose in (MULTIPART, HOPS) or (self.is_awaited and not is_one_step)

    @property
    def can_move(self) -> bool:
        """Return whether a coroutine of the application calls the function without `await`."""
        own = [[frame for frame in stack.frames if frame.kind != "library"] for stack in self.stacks]
        called = [stack for stack, frames in zip(self.stacks, own, strict=True) if _is_plain_call(frames)]
        return total(called) > 0.9 * self.wall


def _is_plain_call(own: Sequence[Frame]) -> bool:
    return any(frame.kind == "async" for frame in own) and not re.search(r"\bawait\b", own[-1].source)


def purpose_of(frames: Sequence[Frame]) -> str:
    """Return what the frames are for, or an empty string if that is unknown."""
    texts = [f"{frame.file} {frame.function}" for frame in frames if frame.kind == "library"]
    return next((name for name, rule in _PURPOSES.items() if any(map(rule.search, texts))), "")


def grouped(stacks: Sequence[Sampled], key: Callable[[Sampled], Key]) -> dict[Key, list[Sampled]]:
    groups = defaultdict[Key, list[Sampled]](list)
    for stack in stacks:
        groups[key(stack)].append(stack)
    return groups


def total(stacks: Sequence[Sampled], column: str = "wall") -> float:
    return sum(getattr(stack, column) for stack in stacks) or 1e-9


def hotspots(stacks: Sequence[Sampled], samples: int, *, contended: bool = False) -> list[Hotspot]:
    """Return a hotspot for each function; a line that waits while other lines compute gets a hotspot of its own.

    Args:
        samples: how often each thread was sampled with the GIL.
    """
    parts = list[list[Sampled]]()
    functions = grouped(stacks, lambda stack: (stack.named.file, stack.named.name) if stack.named else None)
    for function in (group for key, group in functions.items() if key):
        lines = grouped(function, lambda stack: (stack.own or stack.frames[-1]).line)
        waiting = [line for line, part in lines.items() if len(lines) > 1 and _waits_apart(part, function)]
        rest = [stack for line, part in lines.items() if line not in waiting for stack in part]
        parts += [*(lines[line] for line in waiting), *([rest] if rest else [])]
    spots = [_hotspot(part, samples, contended=contended) for part in parts]
    return sorted(spots, key=lambda spot: -spot.wall)


# Shares of a function's time: a line that waits for longer than the second has a hotspot of its own.
NOTICED_WAIT_SHARE, SEPARATE_HOTSPOT_SHARE = 0.05, 0.2
WAITING_USE = 0.25  # a line waits if it uses the CPU and the GIL less than this many times as much as its function


def _waits_apart(part: Sequence[Sampled], whole: Sequence[Sampled], least: float = SEPARATE_HOTSPOT_SHARE) -> bool:
    """Return whether a line takes much of a function's time, but little of its time on a CPU or with the GIL."""
    time, used = total(part) / total(whole), total(whole, "gil") + total(whole, "cpu")
    return time >= least and (total(part, "gil") + total(part, "cpu")) < WAITING_USE * time * used


def _hotspot(stacks: list[Sampled], samples: int, *, contended: bool) -> Hotspot:
    heaviest = max(stacks, key=lambda stack: stack.wall)
    frame = heaviest.named or heaviest.frames[-1]
    purpose = _most(stacks, lambda stack: purpose_of(stack.callees))  # a library may also log occasionally
    state = _state(stacks, purpose, samples, contended=contended)
    detail = purpose or _most(stacks, lambda stack: _called(frame, stack, by_source=state in (WAITS, CPU_FREE)))
    return Hotspot(frame, total(stacks), state, purpose, detail if state != LOCK else "", stacks)


# Code needs the GIL if it holds it for this share of its time on a CPU. Threads that compete for the GIL also use a CPU
# while they don't hold it.
NEEDS_GIL_SHARE, NEEDS_CONTENDED_GIL_SHARE = 0.5, 0.25
MOST_COMPETITORS = 16  # a thread that competes with fewer threads gets more than this fraction of the time


def _state(stacks: list[Sampled], purpose: str, samples: int, *, contended: bool) -> str:
    wall, cpu, gil = (total(stacks, column) for column in ("wall", "cpu", "gil"))
    # On busy CPUs, several threads of a process are ready to run, but only one can hold the GIL.
    running = min(cpu, len({stack.pid for stack in stacks}))
    needs_gil = purpose in _HOLDS_GIL or gil >= (NEEDS_CONTENDED_GIL_SHARE if contended else NEEDS_GIL_SHARE) * running
    if cpu >= 0.5 * wall:
        if needs_gil:
            return CPU_GIL
        return CPU_FREE if _is_without_gil(stacks, running, gil + 3 / samples) else CPU
    lines = grouped(stacks, lambda stack: stack.frames[-1])
    apart = [part for part in lines.values() if len(lines) > 1 and _waits_apart(part, stacks, least=NOTICED_WAIT_SHARE)]
    waiting = sum(map(total, apart))
    if contended and needs_gil and gil + cpu >= wall / MOST_COMPETITORS and waiting < 0.5 * wall:
        return FOR_GIL
    return _waiting_for(stacks)


FREE_OF_GIL_SHARE = 0.25  # code is free of the GIL if it holds it for less than this share of its time on a CPU
ONE_LINE_SHARE = 0.8  # share of the time on a CPU


def _is_without_gil(stacks: list[Sampled], running: float, most_gil: float) -> bool:
    """Return whether C code that releases the GIL takes the time.

    This code has a single line of Python that calls it. By the rule of three, its share of time with the GIL is at most
    that of its samples, and of three more.
    """
    lines = grouped(stacks, lambda stack: stack.frames[-1])
    busiest = max(total(part, "cpu") for part in lines.values())
    return most_gil < FREE_OF_GIL_SHARE * running and busiest > ONE_LINE_SHARE * total(stacks, "cpu")


def _waiting_for(stacks: list[Sampled]) -> str:
    """Return what a function waits for."""
    at_lock = [stack for stack in stacks if stack.is_at_lock]
    locks = [stack for stack in at_lock if any("acquire" in frame.function for frame in stack.callees)]
    locks += [stack for stack in stacks if stack.own and not stack.callees and _LOCK.search(stack.own.source)]
    if total(locks) > 0.5 * total(stacks):
        return LOCK
    return FOR_THREAD if total(at_lock) > 0.5 * total(stacks) else WAITS


def _most(stacks: Sequence[Sampled], name: Callable[[Sampled], str]) -> str:
    """Return the name that applies for more than half of the time, or an empty string."""
    return next((each for each, part in grouped(stacks, name).items() if total(part) > 0.5 * total(stacks)), "")


def _called(frame: Frame, stack: Sampled, *, by_source: bool) -> str:
    """Return the library that a line calls (`requests`), or else the function that its source calls (`time.sleep`)."""
    files = [callee.file for callee in stack.callees if not callee.file.startswith("<")]
    libraries = [re.split(r"[/.]", file)[0] for file in files if not _STDLIB_CALLERS.match(file)]
    if libraries and stack.own:
        return libraries[0]
    call = re.search(r"([A-Za-z_][\w.]*)\(", frame.source) if by_source else None
    return call[1] if call and stack.own and not stack.callees and not frame.source.startswith("def ") else ""
