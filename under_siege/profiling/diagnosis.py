"""Determine from a server's sampled stacks what blocks it: which line, for how much of the time, and why."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from scipy.stats import binomtest

from under_siege.model.sampled_stacks import Profile
from under_siege.profiling.sampler import Frame, stacks_of

LEAST, LEAST_SAMPLES = 0.05, 10  # minimum share of the time, and minimum number of samples, of a reported function
LEAST_BLOCKED_S = 0.002  # a reported function blocks the event loop for at least this time per request
BUSY, IDLE, AT_LOCK, WANTED = 0.8, 0.1, 0.3, 0.5  # thresholds: shares of time (IDLE: of the busiest process's CPU time)
MANY = 1.3  # if more threads than this compute on average, they compete for the GIL
_LOOPS = re.compile(r"(asyncio/(base_events|runners)|uvloop/|tornado/platform/asyncio|gevent/(hub|baseserver))")
_LOOP_FUNCTIONS = re.compile(r"(^|\.)(run|run_forever|run_until_complete|_run_once|start|_handle_and_close_when_done)$")
_IDLE = re.compile(r"^(selectors|asyncio/(base_events|runners)|uvloop/|gevent/hub|select)")
_LOCK = re.compile(r"\block\b|lock:|\.acquire\(|\bsemaphore", re.I)
_SERIALIZATION = re.compile(
    r"(^|/)(json|orjson|ujson|simplejson|msgspec|pickle)\b|serializ|jsonable_encoder|pydantic", re.I
)
_STDLIB_CALLERS = re.compile(r"^(socket|ssl|http/|urllib/|selectors|threading|queue|contextlib|functools|_)")

CPU_GIL, CPU_FREE, FOR_GIL = "CPU-bound, holds the GIL", "CPU-bound, without the GIL", "CPU-bound, waits for the GIL"
LOCK, WAITS = "waits for a lock", "blocking I/O"
UNKNOWN = "too few samples to tell whether it is CPU-bound or waits"
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
        """Return the innermost application frame, or else the outermost frame that serializes or logs, or None."""
        return self.own or next((frame for frame in self.frames if _purpose([frame])), None)

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
    detail: str  # the library or call that takes the time, or its purpose: `logging` or `serialization`
    stacks: list[Sampled]

    @property
    def how(self) -> str:
        return f"{self.state} ({self.detail})" if self.detail else self.state

    @property
    def entry(self) -> Frame | None:
        """Return the outermost application function that leads to this one, or None if it is this function itself."""
        entries = [next(frame for frame in each.frames if frame.kind != "library") for each in self.stacks if each.own]
        entry = Counter(entries).most_common(1)[0][0] if entries else self.frame
        return entry if (entry.file, entry.name) != (self.frame.file, self.frame.name) else None

    @property
    def is_background_task(self) -> bool:
        return any(frame.file.endswith("starlette/background.py") for stack in self.stacks for frame in stack.frames)


class Diagnosis:
    """What the threads of a server did while it was under load."""

    def __init__(self, profile: Profile) -> None:
        self.profile, rows = profile, stacks_of(profile)
        looping = {row[:2] for row in rows if row[0] in (profile.listeners or [row[0]]) and any(map(_is_loop, row[2]))}
        # A master process may run an event loop outside its main thread, and this loop serves no requests.
        self._loops = {key for key in looping if key[1] == "MainThread"} or {
            row[:2] for row in rows if row[:2] in looping and any(frame.kind != "library" for frame in row[2])
        }
        totals = Counter[tuple[int, str]]()
        for pid, thread, _, wall, *_ in rows:
            totals[pid, thread] += wall
        # Threads with the same name are counted together, so their samples can exceed those of the pass.
        self.samples = max(1, min(profile.samples.get("wall", 1), max(totals.values(), default=1)))
        of_cpu, of_gil = (max(1, profile.samples.get(name, 1)) for name in ("cpu", "gil"))
        self._least_told = LEAST_SAMPLES / min(of_cpu, of_gil)
        self.stacks = [
            Sampled(pid, thread, tuple(_above(frames)), wall / self.samples, cpu / of_cpu, gil / of_gil)
            for pid, thread, frames, wall, cpu, gil in rows
        ]
        self.on_loop = [stack for stack in self.stacks if (stack.pid, stack.thread) in self._loops]
        self.busy_on_loop = [stack for stack in self.on_loop if not stack.is_idle]
        # Stacks of the application in threads without an event loop.
        self.in_threads = [stack for stack in self.stacks if (stack.pid, stack.thread) not in self._loops and stack.own]
        self.loop_processes = sorted({pid for pid, _ in self._loops})

    @property
    def gil_held(self) -> float:
        """Return the largest share of the time for which the application threads of a process held its GIL."""
        return max((_total(stacks, "gil") for stacks in self._by_process().values()), default=0.0)

    @cached_property
    def is_gil_contended(self) -> bool:
        """Return whether threads or the event loop wait because other threads hold the GIL most of the time."""
        return any(self._is_contended(pid, stacks) for pid, stacks in self._by_process().items())

    def _is_contended(self, pid: int, stacks: Sequence[Sampled]) -> bool:
        spots = [spot for spot in _hotspots(stacks, contended=True) if spot.state in (CPU_GIL, FOR_GIL)]
        computing = [stack for spot in spots for stack in spot.stacks]
        # On busy CPUs, the GIL may be free while the next thread waits for a CPU. py-spy counts this thread as running.
        wanted = max(_total(computing, "gil"), _total(computing, "cpu"))
        return wanted >= WANTED and (_total(computing, "wall") > MANY or self._main_at_lock([pid]) >= AT_LOCK)

    def _main_at_lock(self, processes: Collection[int]) -> float:
        """Return the share of the time in which main threads waited in the kernel for the GIL.

        A main thread that waits for another lock, for example to join other threads, doesn't count.
        """
        main = [stack for stack in self.stacks if stack.thread == "MainThread" and stack.is_at_lock]
        joining = {pid for pid in processes if _total([stack for stack in main if stack.pid == pid], "wall") > 0.5}
        looks = [self.profile.waits.get(pid, [0, 0]) for pid in {*processes} - joining]
        return sum(waiting for _, waiting in looks) / max(1, sum(count for count, _ in looks))

    def _by_process(self) -> dict[int, list[Sampled]]:
        return _grouped(self.in_threads, lambda stack: stack.pid)

    @cached_property
    def loop_shares(self) -> dict[str, float]:
        """Return the event loops' shares of time in `app`, in `framework`, waiting for the `gil`, and `idle`."""
        count = len(self.loop_processes) or 1
        column = "cpu" if self.is_gil_contended else "wall"
        app = sum(getattr(stack, column) for stack in self.on_loop if stack.own) / count
        all_s = sum(getattr(stack, column) for stack in self.busy_on_loop) / count
        gil = min(self._main_at_lock(self.loop_processes), max(0.0, 1.0 - all_s)) if self.is_gil_contended else 0.0
        return {"app": app, "framework": all_s - app, "gil": gil, "idle": max(0.0, 1.0 - all_s - gil)}

    @cached_property
    def blocking(self) -> list[Hotspot]:
        """Return the functions that block the event loop for a noticeable time per request, longest first."""
        spots = [spot for spot in _hotspots(self.busy_on_loop) if self.per_request_s(spot) >= LEAST_BLOCKED_S]
        if self.is_gil_contended:  # then any line on the event loop may wait for it
            spots = [spot for spot in spots if spot.state in (CPU_GIL, CPU_FREE)]
        return self._enough(spots, len(self.loop_processes))

    @cached_property
    def thread_hotspots(self) -> list[Hotspot]:
        """Return the application functions that run in threads without an event loop, longest first."""
        return self._enough(_hotspots(self.in_threads, contended=self.is_gil_contended), self.threads)

    def _enough(self, spots: Sequence[Hotspot], threads: int) -> list[Hotspot]:
        """Return the functions that took enough of the threads' time, and occur in enough samples, to be named."""
        least = max(LEAST * threads, LEAST_SAMPLES / self.samples)
        # The CPU and GIL passes may have too few samples to determine what a function does.
        unknown = [replace(spot, state=UNKNOWN, detail="") if spot.wall < self._least_told else spot for spot in spots]
        return [spot for spot in unknown if spot.wall >= least]

    @property
    def blocked(self) -> float:
        """Return the share of the time in which event loops are blocked."""
        return min(1.0, sum(spot.wall for spot in self.blocking) / (len(self.loop_processes) or 1))

    def per_request_s(self, spot: Hotspot) -> float:
        """Return the mean time that a request spends in the function, or infinity if no request was answered."""
        return spot.wall * self.profile.load_s / self.profile.answers if self.profile.answers else math.inf

    @cached_property
    def threads(self) -> int:
        """Return the number of threads without an event loop that run the application, in all processes."""
        pools = {(stack.pid, stack.thread) for stack in self.in_threads}
        return max(1, round(sum(stack.wall for stack in self.stacks if (stack.pid, stack.thread) in pools)))

    @property
    def threads_busy(self) -> float:
        """Return the share of their time that threads without an event loop spend in the application."""
        return min(1.0, _total(self.in_threads, "wall") / self.threads)

    @property
    def is_pool_full(self) -> bool:
        """Return whether blocking I/O occupies an event loop's entire thread pool, and users outnumber its threads."""
        is_small = 2 <= self.threads < BUSY * self.profile.users and bool(self.loop_processes)
        return is_small and self.threads_busy >= BUSY and self.thread_hotspots[0].state == WAITS

    def idle_processes(self) -> tuple[int, int]:
        """Return how many processes are idle while others that do the same work are busy, and how many do this work."""
        use = [
            _total(part, "cpu") for part in _grouped(self.in_threads or self.on_loop, lambda stack: stack.pid).values()
        ]
        most = max(use, default=0.0)
        return sum(cpu < IDLE * most for cpu in use) if most > 0.5 else 0, len(use)

    def margin(self, share: float) -> float:
        """Return the half-width of the 95 % Wilson interval of a share, counting at most one sample per request."""
        count = max(1, min(self.samples, self.profile.answers or self.samples))
        interval = binomtest(min(count, round(share * count)), count).proportion_ci(method="wilson")
        return float(interval.high - interval.low) / 2


def _is_loop(frame: Frame) -> bool:
    return frame.kind == "library" and bool(_LOOPS.match(frame.file) and _LOOP_FUNCTIONS.search(frame.function))


def _above(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Return the frames called by the event loop or, without one, by the script that started the server."""
    loops = [index for index, frame in enumerate(frames) if _is_loop(frame)]
    if loops:
        return frames[loops[-1] + 1 :]
    first = next((index for index, frame in enumerate(frames) if frame.kind == "library"), len(frames))
    return frames[first:]


def _purpose(frames: Sequence[Frame]) -> str:
    """Return `logging` or `serialization` if the frames do that, or else an empty string."""
    if any(frame.file.startswith("logging/") for frame in frames):
        return "logging"
    return "serialization" if any(_SERIALIZATION.search(f"{frame.file} {frame.function}") for frame in frames) else ""


def _grouped(stacks: Sequence[Sampled], key: Callable[[Sampled], Key]) -> dict[Key, list[Sampled]]:
    groups = defaultdict[Key, list[Sampled]](list)
    for stack in stacks:
        groups[key(stack)].append(stack)
    return groups


def _total(stacks: Sequence[Sampled], column: str) -> float:
    return sum(getattr(stack, column) for stack in stacks) or 1e-9


def _hotspots(stacks: Sequence[Sampled], *, contended: bool = False) -> list[Hotspot]:
    """Return a hotspot for each function; a line that waits while other lines compute gets a hotspot of its own."""
    parts = list[list[Sampled]]()
    functions = _grouped(stacks, lambda stack: (stack.named.file, stack.named.name) if stack.named else None)
    for function in (group for key, group in functions.items() if key):
        lines = _grouped(function, lambda stack: (stack.own or stack.frames[-1]).line)
        waiting = [line for line, part in lines.items() if len(lines) > 1 and _waits_apart(part, function)]
        rest = [stack for line, part in lines.items() if line not in waiting for stack in part]
        parts += [*(lines[line] for line in waiting), *([rest] if rest else [])]
    return sorted((_hotspot(part, contended=contended) for part in parts), key=lambda spot: -spot.wall)


def _waits_apart(part: Sequence[Sampled], whole: Sequence[Sampled]) -> bool:
    """Return whether a line takes much of a function's time, but little of its time on a CPU or with the GIL."""
    time, used = _total(part, "wall") / _total(whole, "wall"), _total(whole, "gil") + _total(whole, "cpu")
    return time >= 0.2 and (_total(part, "gil") + _total(part, "cpu")) < 0.25 * time * used


def _hotspot(stacks: list[Sampled], *, contended: bool) -> Hotspot:
    wall, cpu, gil = (_total(stacks, column) for column in ("wall", "cpu", "gil"))
    heaviest = max(stacks, key=lambda stack: stack.wall)
    frame = heaviest.named or heaviest.frames[-1]
    # On busy CPUs, several threads of a process are ready to run, but only one can hold the GIL.
    needs_gil = gil >= 0.25 * min(cpu, len({stack.pid for stack in stacks}))
    if cpu >= 0.5 * wall:
        state = CPU_GIL if needs_gil else CPU_FREE
    elif contended and needs_gil and gil + cpu >= 0.06 * wall:
        state = FOR_GIL
    else:
        at_lock = _total([stack for stack in stacks if stack.is_at_lock], "wall")
        state = LOCK if at_lock > 0.5 * wall or (_LOCK.search(frame.source) and not heaviest.callees) else WAITS
    purposes = _grouped(stacks, lambda stack: _purpose(stack.callees))  # a library may also log occasionally
    main = next((purpose for purpose, part in purposes.items() if _total(part, "wall") > 0.5 * wall), "")
    detail = main or (_called(frame, heaviest) if state in (WAITS, CPU_FREE) else "")
    return Hotspot(frame, wall, state, detail if state != LOCK else "", stacks)


def _called(frame: Frame, heaviest: Sampled) -> str:
    """Return the library that a line calls (`requests`), or else the function that its source calls (`time.sleep`)."""
    files = [callee.file for callee in heaviest.callees if not callee.file.startswith("<")]
    libraries = [re.split(r"[/.]", file)[0] for file in files if not _STDLIB_CALLERS.match(file)]
    if libraries and heaviest.own:
        return libraries[0]
    call = re.search(r"([A-Za-z_][\w.]*)\(", frame.source)
    return call[1] if call and heaviest.own and not heaviest.callees and not frame.source.startswith("def ") else ""
