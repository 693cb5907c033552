"""Say from the sampled stacks of a server what blocks it: which line, how much of the time, and why."""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from scipy.stats import binomtest

from under_siege.model.profile import Profile
from under_siege.profiling.sampler import Frame

LEAST, LEAST_SAMPLES = 0.05, 10  # a line is named from this share of the time on, and with at least so many samples
LEAST_BLOCKED_S = 0.002  # a shorter blocking part of each request is no fault
BUSY, IDLE, HELD = 0.8, 0.1, 0.3  # shares of the time
MANY = 1.3  # threads that want to compute at the same time
_LOOPS = re.compile(r"(asyncio/(base_events|runners)|uvloop/|tornado/platform/asyncio|gevent/(hub|baseserver))")
_LOOP_FUNCTIONS = re.compile(r"(^|\.)(run|run_forever|run_until_complete|_run_once|start|_handle_and_close_when_done)$")
_IDLE = re.compile(r"^(selectors|asyncio/(base_events|runners)|uvloop/|gevent/hub|select)")
_LOCK = re.compile(r"\block\b|lock:|\.acquire\(|\bsemaphore", re.I)
_SERIALIZATION = re.compile(
    r"(^|/)(json|orjson|ujson|simplejson|msgspec|pickle)\b|serializ|jsonable_encoder|pydantic", re.I
)
_INNER = re.compile(r"(\.<locals>)?\.<(genexpr|lambda|\w+comp)>.*")  # counts as the function around it
_STDLIB_CALLERS = re.compile(r"^(socket|ssl|http/|urllib/|selectors|threading|queue|contextlib|functools|_)")

CPU_GIL, CPU_FREE, WAITS, LOCK, FOR_GIL, UNKNOWN = "cpu_gil", "cpu_free", "waits", "lock", "for_gil", "unknown"


@dataclass(frozen=True, slots=True)
class Sampled:
    """A stack, with the shares of the time in which one thread had it, in any state, on a CPU, and with the GIL."""

    pid: int
    thread: str
    frames: tuple[Frame, ...]  # without those below the event loop or the server
    wall: float
    cpu: float
    gil: float

    @property
    def own(self) -> Frame | None:
        """Return the innermost frame of the application."""
        return next((frame for frame in reversed(self.frames) if frame.kind != "library"), None)

    @property
    def callees(self) -> tuple[Frame, ...]:
        """Return the frames that the application called; all of them if it has no frame."""
        own = [index for index, frame in enumerate(self.frames) if frame.kind != "library"]
        return self.frames[own[-1] + 1 :] if own else self.frames


@dataclass(frozen=True, slots=True, eq=False)
class Hotspot:
    """A function that takes time, and what it does."""

    frame: Frame  # its most frequent line
    wall: float  # in threads: 2.0 if two threads are in it all of the time
    state: str
    how: str  # in words
    stacks: list[Sampled]

    @property
    def entry(self) -> Frame | None:
        """Return the outermost function of the application that leads here, if it is another one."""
        entries = [
            next(frame for frame in stack.frames if frame.kind != "library") for stack in self.stacks if stack.own
        ]
        entry = max(set(entries), key=entries.count) if entries else self.frame
        return entry if entry[:2] != self.frame[:2] else None

    @property
    def is_background_task(self) -> bool:
        return any(frame.file.endswith("starlette/background.py") for stack in self.stacks for frame in stack.frames)


class Diagnosis:
    """What the threads of a server did while it was under load."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        functions, *others = (getattr(profile.frames, name) for name in profile.frames.__struct_fields__)
        table = list(map(Frame, [_INNER.sub("", function) for function in functions], *others))
        columns = (getattr(profile.stacks, name) for name in profile.stacks.__struct_fields__)
        rows = [
            (pid, thread, [table[index] for index in row], *counts)
            for pid, thread, row, *counts in zip(*columns, strict=True)
        ]
        totals = defaultdict[tuple[int, str], int](int)
        serving = profile.listeners or [row[0] for row in rows]
        looping = {row[:2] for row in rows if row[0] in serving and any(map(_is_loop, row[2]))}
        # A master process may run a loop in another thread, which serves no requests.
        self._loops = {key for key in looping if key[1] == "MainThread"} or {
            row[:2] for row in rows if row[:2] in looping and any(frame.kind != "library" for frame in row[2])
        }
        for pid, thread, _, wall, *_ in rows:
            totals[pid, thread] += wall
        # Threads with one name are counted together, so no thread has more samples than the pass.
        self.samples = max(1, min(profile.samples.get("wall", 1), max(totals.values(), default=1)))
        of_pass = {name: max(1, profile.samples.get(name, 1)) for name in ("cpu", "gil")}
        self._least_told = LEAST_SAMPLES / min(of_pass.values())
        self.stacks = [
            Sampled(pid, thread, tuple(_above(frames)), wall / self.samples, cpu / of_pass["cpu"], gil / of_pass["gil"])
            for pid, thread, frames, wall, cpu, gil in rows
        ]

    @cached_property
    def loop_processes(self) -> list[int]:
        return sorted({pid for pid, _ in self._loops})

    @cached_property
    def on_loop(self) -> list[Sampled]:
        return [stack for stack in self.stacks if (stack.pid, stack.thread) in self._loops]

    @cached_property
    def in_threads(self) -> list[Sampled]:
        """Return the stacks of the application in other threads."""
        return [stack for stack in self.stacks if (stack.pid, stack.thread) not in self._loops and stack.own]

    @cached_property
    def busy(self) -> list[Sampled]:
        """Return the stacks of event loops that were not idle, and those of the application in other threads."""
        return [*self._busy_on_loop, *self.in_threads]

    @property
    def _busy_on_loop(self) -> list[Sampled]:
        return [stack for stack in self.on_loop if stack.own or not _is_idle(stack.frames)]

    @cached_property
    def gil_held(self) -> float:
        """Return the largest share of the time in which the application's threads of one process held its GIL."""
        return max((_total(self._of(pid), "gil") for pid in {stack.pid for stack in self.in_threads}), default=0.0)

    @cached_property
    def is_gil_contended(self) -> bool:
        """Return whether threads or the event loop wait because another thread holds the GIL most of the time."""
        processes = {stack.pid for stack in self.in_threads}
        are_many = any(self._computing(pid) > MANY for pid in processes)
        return self.gil_held >= HELD and (are_many or self._main_at_lock(processes) >= HELD)

    def _computing(self, pid: int) -> float:
        """Return how many threads of a process compute, or wait for the GIL to do so, on average."""
        spots = _hotspots(self._of(pid), contended=True)
        return sum(spot.wall for spot in spots if spot.state in (CPU_GIL, FOR_GIL))

    def _main_at_lock(self, processes: Collection[int]) -> float:
        """Return the share of the time in which main threads waited in the kernel for the GIL.

        A main thread that waits for a lock of its own, such as a thread that joins others, doesn't count.
        """
        main = [stack for stack in self.stacks if stack.thread == "MainThread" and _is_at_lock(stack)]
        joining = {pid for pid in processes if sum(stack.wall for stack in main if stack.pid == pid) > 0.5}
        looks = [self.profile.waits.get(pid, [0, 0]) for pid in {*processes} - joining]
        return sum(waiting for _, waiting in looks) / max(1, sum(count for count, _ in looks))

    def _of(self, pid: int) -> list[Sampled]:
        return [stack for stack in self.in_threads if stack.pid == pid]

    @cached_property
    def loop_shares(self) -> dict[str, float]:
        """Return how the event loops spent their time: `app`, `framework`, `gil` (waiting for it) and `idle`."""
        count = len(self.loop_processes) or 1
        column = "cpu" if self.is_gil_contended else "wall"
        app = sum(getattr(stack, column) for stack in self.on_loop if stack.own) / count
        all_s = sum(getattr(stack, column) for stack in self._busy_on_loop) / count
        gil = min(self._main_at_lock(self.loop_processes), max(0.0, 1.0 - all_s)) if self.is_gil_contended else 0.0
        return {"app": app, "framework": all_s - app, "gil": gil, "idle": max(0.0, 1.0 - all_s - gil)}

    @cached_property
    def blocking(self) -> list[Hotspot]:
        """Return what blocks the event loop for long in each request, the longest first."""
        spots = _hotspots([stack for stack in self._busy_on_loop if stack.own or _special(stack)])
        if self.is_gil_contended:  # then the loop waits for the GIL wherever it is
            spots = [spot for spot in spots if spot.state in (CPU_GIL, CPU_FREE)]
        long = [spot for spot in spots if self.per_request_s(spot) >= LEAST_BLOCKED_S]
        return [self._told(spot) for spot in long if self._is_enough(spot, len(self.loop_processes))]

    @cached_property
    def thread_hotspots(self) -> list[Hotspot]:
        """Return what the application does in other threads, the longest first."""
        spots = _hotspots(self.in_threads, contended=self.is_gil_contended)
        return [self._told(spot) for spot in spots if self._is_enough(spot, self.threads)]

    @property
    def blocked(self) -> float:
        """Return the share of the time in which event loops are blocked."""
        return min(1.0, sum(spot.wall for spot in self.blocking) / (len(self.loop_processes) or 1))

    def _told(self, spot: Hotspot) -> Hotspot:
        """Return the hotspot, without what it does if the passes on CPU and GIL have too few samples of it."""
        if spot.wall >= self._least_told:
            return spot
        return replace(spot, state=UNKNOWN, how="too few samples to tell whether it computes or waits")

    def _is_enough(self, spot: Hotspot, threads: int) -> bool:
        """Return whether a function has enough of the time of these threads, and enough samples, to be named."""
        return spot.wall >= LEAST * threads and spot.wall * self.samples >= LEAST_SAMPLES

    def per_request_s(self, spot: Hotspot) -> float:
        """Return how long each request is in the function; infinite if none was answered."""
        return spot.wall * self.profile.load_s / self.profile.answers if self.profile.answers else math.inf

    @cached_property
    def threads(self) -> int:
        """Return how many other threads run the application, in all processes."""
        pools = {(stack.pid, stack.thread) for stack in self.in_threads}
        return max(1, round(sum(stack.wall for stack in self.stacks if (stack.pid, stack.thread) in pools)))

    @property
    def threads_busy(self) -> float:
        """Return the share of their time in which these threads run the application."""
        return min(1.0, sum(stack.wall for stack in self.in_threads) / self.threads)

    @property
    def is_pool_full(self) -> bool:
        """Return whether all threads beside an event loop are busy with waiting, and fewer than there are users."""
        is_small = 2 <= self.threads < BUSY * self.profile.users and bool(self.loop_processes)
        return is_small and self.threads_busy >= BUSY and self.thread_hotspots[0].state == WAITS

    def idle_processes(self) -> tuple[int, int]:
        """Return how many processes with the same job are idle beside busy ones, and how many there are."""
        use = defaultdict[int, float](float)
        for stack in self.in_threads or self.on_loop:
            use[stack.pid] += stack.cpu
        most = max(use.values(), default=0.0)
        return sum(cpu < IDLE * most for cpu in use.values()) if most > 0.5 else 0, len(use)

    def margin(self, share: float) -> float:
        """Return the half-width of the 95 % interval of a share (Wilson), with no more samples than requests."""
        count = max(1, min(self.samples, self.profile.answers or self.samples))
        interval = binomtest(min(count, round(share * count)), count).proportion_ci(method="wilson")
        return float(interval.high - interval.low) / 2


def _is_loop(frame: Frame) -> bool:
    return frame.kind == "library" and bool(_LOOPS.match(frame.file) and _LOOP_FUNCTIONS.search(frame.function))


def _above(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Return the frames above the event loop, or those above the script that started the server."""
    loops = [index for index, frame in enumerate(frames) if _is_loop(frame)]
    if loops:
        return frames[loops[-1] + 1 :]
    first = next((index for index, frame in enumerate(frames) if frame.kind == "library"), len(frames))
    return frames[first:]


def _is_idle(frames: Sequence[Frame]) -> bool:
    return not frames or bool(_IDLE.match(frames[-1].file))


def _is_at_lock(stack: Sampled) -> bool:
    return bool(stack.frames) and stack.frames[-1].file.startswith(("threading", "queue"))


def _special(stack: Sampled) -> Frame | None:
    """Return the outermost frame of serialization or logging."""
    return next((frame for frame in stack.frames if _purpose([frame])), None)


def _purpose(frames: Sequence[Frame]) -> str:
    """Return `logging` or `serialization` if that is what the frames do."""
    if any(frame.file.startswith("logging/") for frame in frames):
        return "logging"
    return "serialization" if any(_SERIALIZATION.search(f"{frame.file} {frame.function}") for frame in frames) else ""


def _hotspots(stacks: Sequence[Sampled], *, contended: bool = False) -> list[Hotspot]:
    """Return a hotspot for each function, and one of its own for each line of it that waits while others compute."""
    functions = defaultdict[tuple[str, str], list[Sampled]](list)
    for stack in stacks:
        frame = stack.own or _special(stack)
        assert frame is not None
        functions[frame.file, frame.function].append(stack)
    spots = []
    for of_function in functions.values():
        lines = defaultdict[int, list[Sampled]](list)
        for stack in of_function:
            lines[(stack.own or stack.frames[-1]).line].append(stack)
        waiting = [line for line, part in lines.items() if len(lines) > 1 and _waits_apart(part, of_function)]
        rest = [stack for line, part in lines.items() if line not in waiting for stack in part]
        parts = [*(lines[line] for line in waiting), *([rest] if rest else [])]
        spots += [_hotspot(part, contended=contended) for part in parts]
    return sorted(spots, key=lambda spot: -spot.wall)


def _waits_apart(part: Sequence[Sampled], whole: Sequence[Sampled]) -> bool:
    """Return whether a line has much of a function's time, but hardly any of its time with the GIL or on a CPU."""
    time, used = _total(part, "wall") / _total(whole, "wall"), _total(whole, "gil") + _total(whole, "cpu")
    return time >= 0.2 and (_total(part, "gil") + _total(part, "cpu")) < 0.25 * time * used


def _total(stacks: Sequence[Sampled], column: str) -> float:
    return sum(getattr(stack, column) for stack in stacks) or 1e-9


def _hotspot(stacks: list[Sampled], *, contended: bool) -> Hotspot:
    wall, cpu, gil = (_total(stacks, column) for column in ("wall", "cpu", "gil"))
    heaviest = max(stacks, key=lambda stack: stack.wall)
    frame = heaviest.own or _special(heaviest) or heaviest.frames[-1]
    needs_gil = gil >= 0.25 * cpu
    if cpu >= 0.5 * wall:
        state = CPU_GIL if needs_gil else CPU_FREE
    elif contended and needs_gil and gil + cpu >= 0.06 * wall:
        state = FOR_GIL
    else:
        at_lock = [stack for stack in stacks if _is_at_lock(stack)]
        is_lock = _total(at_lock, "wall") > 0.5 * wall or (_LOCK.search(frame.source) and not heaviest.callees)
        state = LOCK if is_lock else WAITS
    return Hotspot(frame, wall, state, _how(state, frame, _main_purpose(stacks, wall), heaviest), stacks)


def _main_purpose(stacks: Sequence[Sampled], wall: float) -> str:
    """Return what the callees do in more than half of the time; a library may also log a line now and then."""
    return next(
        (
            purpose
            for purpose in ("logging", "serialization")
            if _total([stack for stack in stacks if _purpose(stack.callees) == purpose], "wall") > 0.5 * wall
        ),
        "",
    )


def _how(state: str, frame: Frame, purpose: str, heaviest: Sampled) -> str:
    called = _called(frame, heaviest)
    in_words = {
        CPU_GIL: "CPU-bound, holds the GIL",
        CPU_FREE: "CPU-bound, without the GIL",
        FOR_GIL: "CPU-bound, waits for the GIL",
        LOCK: "waits for a lock",
        WAITS: "blocking I/O",
    }[state]
    detail = purpose or (called if state in (WAITS, CPU_FREE) else "")
    return f"{in_words} ({detail})" if detail and state != LOCK else in_words


def _called(frame: Frame, heaviest: Sampled) -> str:
    """Return the library that a line calls, or else the call in its source: `requests`, `time.sleep`."""
    files = [callee.file for callee in heaviest.callees if not callee.file.startswith("<")]
    libraries = [re.split(r"[/.]", file)[0] for file in files if not _STDLIB_CALLERS.match(file)]
    if libraries and heaviest.own:
        return libraries[0]
    call = re.search(r"([A-Za-z_][\w.]*)\(", frame.source)
    return call[1] if call and heaviest.own and not heaviest.callees and not frame.source.startswith("def ") else ""
