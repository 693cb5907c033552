"""Determine from a server's sampled stacks what blocks it: which line, for how much of the time, and why."""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from scipy.stats import binomtest

from under_siege.profile.hotspots import (
    CPU_GIL,
    FOR_GIL,
    HOPS,
    MULTIPART,
    ON_CPU,
    SERIALIZATION,
    UNKNOWN,
    WAITS,
    Hotspot,
    Sampled,
    grouped,
    hotspots,
    total,
)
from under_siege.profile.sampler import Frame, frames_of, stacks_of
from under_siege.record.record import Profile

# A function is reported if it takes this share of the time, occurs in this many samples and, on an event loop, blocks
# it for this time per request.
LEAST_REPORTED_SHARE = 0.05
LEAST_REPORTED_SAMPLES = 10
LEAST_BLOCKED_S = 0.002
# Threads compete for the GIL if code that needs it runs for this share of the time, and either more threads than this
# compute on average, or main threads wait in the kernel for this share of the time.
GIL_IN_DEMAND_SHARE = 0.5
COMPETING_THREADS = 1.3
MAIN_THREAD_WAIT_SHARE = 0.3
FULL_POOL_SHARE = 0.8  # a pool is full if its threads are busy for this share of the time
IDLE_OF_BUSIEST, BUSY_CPUS = 0.1, 0.5  # CPU time of an idle process divided by that of the busiest; CPUs of the latter
_LOOPS = re.compile(r"(asyncio/(base_events|runners)|uvloop/|tornado/platform/asyncio|gevent/(hub|baseserver))")
_LOOP_FUNCTIONS = re.compile(r"(^|\.)(run|run_forever|run_until_complete|_run_once|start|_handle_and_close_when_done)$")
# What an event loop spends its time on: keys of `Diagnosis.loop_shares`, and their names in texts.
LOOP_SHARES = {"app": "your code", "framework": "framework", "gil": "waiting for the GIL", "idle": "idle"}


@dataclass(frozen=True)
class Threads:
    """The sampled stacks of a server's threads, as shares of the time."""

    loop: Sequence[Sampled]  # of event loops that serve requests
    others: Sequence[Sampled]
    samples: int  # in any state
    cpu_samples: int
    gil_samples: int

    @cached_property
    def busy_loop(self) -> list[Sampled]:
        return [stack for stack in self.loop if not stack.is_idle]

    @cached_property
    def own(self) -> list[Sampled]:
        """Return the stacks of the application in threads without an event loop."""
        return [stack for stack in self.others if stack.own]

    @cached_property
    def loop_processes(self) -> list[int]:
        return sorted({stack.pid for stack in self.loop})

    @property
    def stacks(self) -> list[Sampled]:
        return [*self.loop, *self.others]


def threads_of(profile: Profile) -> Threads:
    """Return the stacks of a profile, those of the event loops apart from the others."""
    rows = stacks_of(profile)
    looping = {row[:2] for row in rows if row[0] in (profile.listeners or [row[0]]) and any(map(_is_loop, row[2]))}
    # A master process may run an event loop outside its main thread, and this loop serves no requests.
    loops = {key for key in looping if key[1] == "MainThread"} or {
        row[:2] for row in rows if row[:2] in looping and any(frame.kind != "library" for frame in row[2])
    }
    totals = Counter[tuple[int, str]]()
    for pid, thread, _, wall, *_ in rows:
        totals[pid, thread] += wall
    # Threads with the same name are counted together, so their samples can exceed those of the pass.
    samples = max(1, min(profile.samples.get("wall", 1), max(totals.values(), default=1)))
    of_cpu, of_gil = (max(1, profile.samples.get(name, 1)) for name in ("cpu", "gil"))
    stacks = [
        Sampled(pid, thread, tuple(_above(frames)), wall / samples, cpu / of_cpu, gil / of_gil)
        for pid, thread, frames, wall, cpu, gil in rows
    ]
    loop = [stack for stack in stacks if (stack.pid, stack.thread) in loops]
    others = [stack for stack in stacks if (stack.pid, stack.thread) not in loops]
    return Threads(loop, others, samples, of_cpu, of_gil)


class Diagnosis:
    """What the threads of a server did while it was under load."""

    def __init__(self, profile: Profile) -> None:
        self.profile, self.threads = profile, threads_of(profile)

    @property
    def gil_held(self) -> float:
        """Return the largest share of the time for which the application threads of a process held its GIL."""
        return max((total(stacks, "gil") for stacks in self._by_process().values()), default=0.0)

    @cached_property
    def is_gil_contended(self) -> bool:
        """Return whether threads or the event loop wait because other threads hold the GIL most of the time."""
        return any(self._is_contended(pid, stacks) for pid, stacks in self._by_process().items())

    def _is_contended(self, pid: int, stacks: Sequence[Sampled]) -> bool:
        spots = hotspots(stacks, self.threads.gil_samples, contended=True)
        spots = [spot for spot in spots if spot.state in (CPU_GIL, FOR_GIL)]
        computing = [stack for spot in spots for stack in spot.stacks]
        does_main_wait = self._main_at_lock([pid]) >= MAIN_THREAD_WAIT_SHARE
        # On busy CPUs, the GIL may be free while the next thread waits for a CPU. py-spy counts this thread as running.
        wanted = max(total(computing, "gil"), total(computing, "cpu"))
        is_wanted = wanted >= GIL_IN_DEMAND_SHARE and (total(computing) > COMPETING_THREADS or does_main_wait)
        return is_wanted or (does_main_wait and total(stacks, "gil") >= GIL_IN_DEMAND_SHARE)

    def _main_at_lock(self, processes: Collection[int]) -> float:
        """Return the share of the time in which main threads waited in the kernel for the GIL.

        A main thread that waits for another lock, for example to join other threads, doesn't count.
        """
        main = [stack for stack in self.threads.stacks if stack.thread == "MainThread" and stack.is_at_lock]
        joining = {pid for pid in processes if total([stack for stack in main if stack.pid == pid]) > 0.5}
        looks = [self.profile.waits.get(pid, [0, 0]) for pid in {*processes} - joining]
        return sum(waiting for _, waiting in looks) / max(1, sum(count for count, _ in looks))

    def _by_process(self) -> dict[int, list[Sampled]]:
        return grouped(self.threads.own, lambda stack: stack.pid)

    @cached_property
    def loop_shares(self) -> dict[str, float]:
        """Return the event loops' shares of time in `app`, in `framework`, waiting for the `gil`, and `idle`."""
        count = len(self.threads.loop_processes) or 1
        column = "cpu" if self.is_gil_contended else "wall"
        app = sum(getattr(stack, column) for stack in self.threads.loop if stack.own) / count
        all_s = sum(getattr(stack, column) for stack in self.threads.busy_loop) / count
        gil = (
            min(self._main_at_lock(self.threads.loop_processes), max(0.0, 1.0 - all_s))
            if self.is_gil_contended
            else 0.0
        )
        return {"app": app, "framework": all_s - app, "gil": gil, "idle": max(0.0, 1.0 - all_s - gil)}

    @cached_property
    def loop_hotspots(self) -> list[Hotspot]:
        """Return the functions that occupy the event loop for a noticeable time per request, longest first."""
        spots = hotspots(self.threads.busy_loop, self.threads.gil_samples)
        spots = [spot for spot in spots if self.per_request_s(spot) >= LEAST_BLOCKED_S]
        if self.is_gil_contended:  # then any line on the event loop may wait for it
            spots = [spot for spot in spots if spot.state in ON_CPU]
        return self._enough(spots, len(self.threads.loop_processes))

    @cached_property
    def thread_hotspots(self) -> list[Hotspot]:
        """Return the application functions that run in threads without an event loop, longest first."""
        spots = hotspots(self.threads.own, self.threads.gil_samples, contended=self.is_gil_contended)
        return self._enough(spots, self.thread_count)

    def _enough(self, spots: Sequence[Hotspot], threads: int) -> list[Hotspot]:
        """Return the functions that took enough of the threads' time, and occur in enough samples, to be named."""
        least = max(LEAST_REPORTED_SHARE * threads, LEAST_REPORTED_SAMPLES / self.threads.samples)
        # The CPU and GIL passes may have too few samples to determine what a function does.
        least_known = LEAST_REPORTED_SAMPLES / min(self.threads.cpu_samples, self.threads.gil_samples)
        unknown = [replace(spot, state=UNKNOWN, detail="") if spot.wall < least_known else spot for spot in spots]
        return [spot for spot in unknown if spot.wall >= least]

    def occupied(self, spots: Sequence[Hotspot]) -> float:
        """Return the share of the time in which event loops are in these functions."""
        return min(1.0, sum(spot.wall for spot in spots) / (len(self.threads.loop_processes) or 1))

    def cause_of(self, spot: Hotspot) -> Frame | None:
        """Return the line of the application that causes work of the framework, or None if it is unknown."""
        lines = frames_of(self.profile.endpoint)
        if not lines or spot.stacks[0].own or spot.purpose not in (HOPS, MULTIPART, SERIALIZATION):
            return None
        definition, *responses = lines
        streams = [frame for frame in responses if "StreamingResponse(" in frame.source]
        certain = {HOPS: streams, SERIALIZATION: responses}.get(spot.purpose, [])
        return certain[0] if len(certain) == 1 else definition

    def per_request_s(self, spot: Hotspot) -> float:
        """Return the mean time that a request spends in the function, or infinity if no request was answered."""
        return spot.wall * self.profile.load_s / self.profile.answers if self.profile.answers else math.inf

    @cached_property
    def thread_count(self) -> int:
        """Return the number of threads without an event loop that run the application, in all processes."""
        pools = {(stack.pid, stack.thread) for stack in self.threads.own}
        return max(1, round(sum(stack.wall for stack in self.threads.stacks if (stack.pid, stack.thread) in pools)))

    @property
    def threads_busy(self) -> float:
        """Return the share of their time that threads without an event loop spend in the application."""
        return min(1.0, total(self.threads.own) / self.thread_count)

    @property
    def is_pool_full(self) -> bool:
        """Return whether blocking I/O occupies an event loop's entire thread pool, and users outnumber its threads."""
        is_small = 2 <= self.thread_count < FULL_POOL_SHARE * self.profile.users and bool(self.threads.loop_processes)
        return is_small and self.threads_busy >= FULL_POOL_SHARE and self.thread_hotspots[0].state == WAITS

    def idle_processes(self) -> tuple[int, int]:
        """Return how many processes that accept connections are idle while others are busy, and how many there are."""
        parts = grouped(self.threads.own or self.threads.loop, lambda stack: stack.pid)
        listeners = self.profile.listeners or parts
        use = [total(part, "cpu") for pid, part in parts.items() if pid in listeners]
        most = max(use, default=0.0)
        return sum(cpu < IDLE_OF_BUSIEST * most for cpu in use) if most > BUSY_CPUS else 0, len(use)

    def margin(self, share: float) -> float:
        """Return the half-width of the 95 % Wilson interval of a share, counting at most one sample per request."""
        count = max(1, min(self.threads.samples, self.profile.answers or self.threads.samples))
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
