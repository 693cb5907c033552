"""Show profiles: in at most six lines for each server, what blocks it and what to do about it; and its flame graph."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

from rich.console import Group
from rich.text import Text

from under_siege import formatting
from under_siege.paths import PROGRAM
from under_siege.profile.diagnosis import LOOP_SHARES, Diagnosis
from under_siege.profile.hotspots import (
    CPU,
    CPU_GIL,
    FOR_GIL,
    HOPS,
    JINJA,
    LOCK,
    LOGGING,
    MULTIPART,
    SERIALIZATION,
    UNKNOWN,
    WAITS,
    Hotspot,
)
from under_siege.profile.sampler import Frame
from under_siege.record.result import Result
from under_siege.show.case_names import CaseNames
from under_siege.show.charts import Chart, Rows, kind, layer, quantity
from under_siege.show.conditions import began_at, facts, identity
from under_siege.show.view import Figure, Note, Paragraph, Tone, View

QUESTION = "What blocks each server?"
HOW_TO_READ = (
    "The bar, if any, shows what the event loop did. Each box below is a function of your code (bold) or a library; "
    "the boxes under it are what it called. A box is as wide as its share of the time in which threads were busy."
)


def view(result: Result) -> View:
    """Return what `profile` shows; the exit code is 1 if a server could not be profiled."""
    if not result.profiles:
        nothing = f"Nothing was profiled: see {PROGRAM} profile."
        return View(QUESTION, headline=(Paragraph(nothing),))
    return View(
        QUESTION,
        figures=tuple(figures(result)),
        notes=tuple(_failures(result)),
        data={**identity(result), "cases": []},
        facts=tuple(facts(result)),
        made_at=began_at(result),
        exit_code=int(any(profile.failure for profile in result.profiles)),
    )


def figures(result: Result) -> Iterator[Figure]:
    """Yield a flame graph and the diagnosis of each profile that did not fail. A terminal shows only the diagnosis."""
    names = CaseNames(result.profiles)
    for number, profile in enumerate(each for each in result.profiles if not each.failure):
        name, diagnosis = names.full(profile.case), Diagnosis(profile)
        lines = diagnosed(diagnosis)
        yield Figure(
            "profile",
            "",
            "\n".join([*lines[1:], *([] if number else [HOW_TO_READ])]),
            partial(flame_graph, diagnosis),
            f"Flame graph of {name}. {' '.join(lines)}",
            headline=f"{name}: {lines[0].removesuffix('.')}",
            section="Profiles",
            in_terminal=Group(Text(name, style="bold"), *(Text(f"  {line}") for line in lines)),
        )


def _failures(result: Result) -> Iterator[Note]:
    names = CaseNames(result.profiles)
    for profile in result.profiles:
        if profile.failure:
            yield Note("failed", names.full(profile.case), f"not profiled: {profile.failure}", Tone.BAD)


# Share of all CPUs; above it, threads that wait for a CPU seem to wait for something else.
LARGEST_OTHER_WORK = 0.3


def diagnosed(diagnosis: Diagnosis) -> list[str]:
    """Return what blocks the server, where, and what to do about it, in at most six lines."""
    headline, spots, advice = _finding(diagnosis)
    if diagnosis.profile.other_work > LARGEST_OTHER_WORK:
        others = formatting.share(diagnosis.profile.other_work)
        headline = f"Uncertain, because other processes used {others} of the CPUs: {headline[0].lower()}{headline[1:]}"
    lines = [f"{headline} ({diagnosis.threads.samples} samples).", *(_place(spot, diagnosis) for spot in spots[:2])]
    if spots and (entry := spots[0].entry):
        lines.append(f"Called from {_definition(entry)}.")
    elif spots and (cause := diagnosis.cause_of(spots[0])):
        lines.append(f"Caused by {_definition(cause)}: {cause.source}")
    if diagnosis.threads.loop_processes:
        shares = (f"{name} {_percent(diagnosis.loop_shares[key])}" for key, name in LOOP_SHARES.items())
        lines.append(f"event loop: {', '.join(shares)}")
    return [*lines, advice] if advice else lines


def _definition(frame: Frame) -> str:
    """Return text such as `async def report (shop/main.py:12)`."""
    return f"{'async def ' if frame.kind in ('async', 'await') else ''}{frame.name} ({frame.place})"


def _finding(diagnosis: Diagnosis) -> tuple[str, list[Hotspot], str]:
    """Return the main finding, the functions that explain it, and the advice."""
    if spots := diagnosis.loop_hotspots:
        return _finding_on_loop(diagnosis, spots), spots, _advice(spots[0], diagnosis.per_request_s(spots[0]))
    idle, processes = diagnosis.idle_processes()
    if idle:
        return (
            f"Of {processes} processes, {idle} stayed idle while others were busy",
            diagnosis.thread_hotspots,
            "Connections are spread unevenly: close them after each request, or use a proxy that balances them.",
        )
    return _finding_in_threads(diagnosis)


_BUSY_WITH = {HOPS: "Thread hops for each chunk used", MULTIPART: "Multipart parsing used"}


def _finding_on_loop(diagnosis: Diagnosis, spots: list[Hotspot]) -> str:
    first = spots[0]
    alike = [spot for spot in spots if spot.is_in_steps == first.is_in_steps]
    if first.is_in_steps:
        alike = [spot for spot in alike if spot.purpose == first.purpose]
    occupied = diagnosis.occupied(alike)
    share = f"{_percent(occupied)} ± {_percent(diagnosis.margin(occupied))}"
    if first.is_in_steps:
        return f"{_BUSY_WITH.get(first.purpose, 'Awaited calls used')} {share} of the event loop's time"
    return f"The event loop was blocked {share} of the time"


def _advice(spot: Hotspot, per_request_s: float) -> str:
    """Return what is certain to unblock the event loop, or an empty string."""
    if spot.purpose == HOPS:
        return "Send larger chunks: each chunk of an iterator that is not asynchronous costs a thread hop."
    if spot.state == UNKNOWN:
        return "Profile for longer, for example with --time 60s."
    if spot.purpose == SERIALIZATION:
        return "Serialize less data per request; a thread would hold the GIL during serialization, too."
    if spot.purpose == LOGGING and spot.state == WAITS:
        return "Log through logging.handlers.QueueHandler, so that a thread does the writing."
    if not spot.can_move or spot.purpose in (LOGGING, JINJA):
        return ""
    task = "It is a background task on the event loop (docs/questions/03-background-tasks.md). "
    return (task if spot.is_background_task else "") + _move(spot.state, per_request_s)


LEAST_MOVED_S = 0.01  # a process pool pays off for functions that take at least this time per request


def _move(state: str, per_request_s: float) -> str:
    """Return how to move a function off the event loop, or an empty string if that may not pay off."""
    if state == CPU_GIL and per_request_s >= LEAST_MOVED_S:
        return "Move it to a process pool (docs/questions/02-process-pool.md); a thread would compete for the GIL."
    if state in (CPU, CPU_GIL):
        return ""
    thread = "await asyncio.to_thread(...) (docs/questions/01-def-or-async-def.md)."
    return f"Use an async library, or {thread}" if state == WAITS else f"Move it to a thread: {thread}"


LEAST_LOCKED_SHARE = 0.3  # locks are reported if threads wait for them for at least this share of the time


def _finding_in_threads(diagnosis: Diagnosis) -> tuple[str, list[Hotspot], str]:
    spots = diagnosis.thread_hotspots
    threads = diagnosis.thread_count
    busy = _percent(diagnosis.threads_busy)
    at_locks = [spot for spot in spots if spot.state == LOCK]
    waiting = sum(spot.wall for spot in at_locks) / threads
    if waiting >= LEAST_LOCKED_SHARE:
        return (
            f"{threads} {'thread' if threads == 1 else 'threads'} waited for a lock {_percent(waiting)} of the time",
            [*at_locks, *(spot for spot in spots if spot not in at_locks)],
            "Do less while the lock is held.",
        )
    if diagnosis.is_gil_contended:
        holder = f"{threads} threads, in turn," if threads > 1 else "One thread"
        computing = [spot for spot in spots if spot.state in (FOR_GIL, CPU_GIL)]
        return (
            f"{holder} held the GIL {_percent(diagnosis.gil_held)} of the time, so everything else had to wait",
            computing or spots,
            "Use processes (docs/questions/02-process-pool.md)." if computing and computing[0] is spots[0] else "",
        )
    if diagnosis.is_pool_full:
        return (
            f"All {threads} threads of the pool were busy {busy} of the time",
            spots,
            f"{diagnosis.profile.users} users share {threads} threads: raise the limit, or use an async library "
            "(docs/questions/04-forty-threads.md).",
        )
    if diagnosis.threads.loop_processes:
        return "Nothing blocks the event loop", spots, ""
    workers = f"Each of {threads} workers was" if threads > 1 else "The only worker was"
    return f"{workers} busy {busy} of the time, with one request at a time", spots, ""


def _place(spot: Hotspot, diagnosis: Diagnosis) -> str:
    """Return a line such as `89 %  shop/report.py:23  render  CPU-bound, holds the GIL  38 ms per request`."""
    threads = diagnosis.threads
    count = len(threads.loop_processes) if spot.stacks[0] in threads.loop else diagnosis.thread_count
    per_request_s = diagnosis.per_request_s(spot)
    cost = f"  {formatting.seconds(per_request_s)} per request" if per_request_s < float("inf") else ""
    return f"{_percent(spot.wall / count):>5}  {spot.frame.place}  {spot.frame.name}  {spot.how}{cost}"


def _percent(share: float) -> str:
    return f"{100 * min(1.0, share):.0f} %"


_NARROWEST_BOX, _MOST_LEVELS = 0.002, 30  # share of the width of the smallest box, and maximum number of levels
_NARROWEST_NAMED_BOX = 0.03  # share of the width of the smallest box with a name
_COLOURS = ["var(--work)", "var(--mute)", "var(--late)", "var(--grid)"]
_Folded = tuple[list[tuple[bool, str]], float]  # (is application code, label) for each frame; share of time
_Box = tuple[bool, str, float, float, int]  # whether it is application code, label, left edge, width, level


def flame_graph(diagnosis: Diagnosis) -> Chart:
    """Draw a flame graph from top to bottom; the width of a box is its share of the time in which threads were busy."""
    # Stacks that occur only in the CPU and GIL passes have no width.
    busy = [stack for stack in [*diagnosis.threads.busy_loop, *diagnosis.threads.own] if stack.wall]
    stacks = [(list(_folded(stack.frames)), stack.wall) for stack in busy]
    boxes = [
        {"is_own": is_own, "name": name, "from": left, "to": left + width, "level": level}
        for is_own, name, left, width, level in _placed(stacks, 0.0, 1 / max(1e-9, sum(wall for _, wall in stacks)))
        if width >= _NARROWEST_BOX and level < _MOST_LEVELS
    ]
    x = quantity("from", scale={"domain": [0, 1]}, axis=None)
    place = {"x": x, "x2": {"field": "to"}, "y": {"field": "level", "type": "ordinal", "axis": None}}
    loop = _loop_shares(diagnosis) if diagnosis.threads.loop_processes else []
    activities = [share["activity"] for share in loop]
    scale, legend = {"domain": activities, "range": _COLOURS}, {"orient": "top", "columns": 2}
    own = {"condition": {"test": "datum.is_own", "value": "var(--wait)"}, "value": "var(--grid)"}
    fits = {"limit": {"expr": "scale('x', datum.to) - scale('x', datum.from) - 8"}}
    bold = {"fontWeight": {"expr": "datum.is_own ? 'bold' : 'normal'"}}
    return {
        "data": {"values": boxes},
        "width": "container",
        "height": {"step": 20},
        "layer": [
            {
                "data": {"values": loop},
                **layer("bar", "box", {**place, "color": kind("activity", scale=scale, legend=legend)}),
            },
            layer("bar", "box", {**place, "color": own}),
            {
                "transform": [{"filter": f"datum.to - datum.from > {_NARROWEST_NAMED_BOX}"}],
                **layer("text", "frame", {"x": x, "y": place["y"], "text": kind("name")}, **fits, **bold),
            },
        ],
    }


def _loop_shares(diagnosis: Diagnosis) -> Rows:
    """Return the shares of the time that the event loops spent on each activity, side by side above the stacks."""
    rows, left = [], 0.0
    for key, name in LOOP_SHARES.items():
        share = diagnosis.loop_shares[key]
        rows.append({"activity": f"{name} {100 * share:.0f} %", "from": left, "to": left + share, "level": -1})
        left += share
    return rows


def _folded(frames: Sequence[Frame]) -> Iterator[tuple[bool, str]]:
    """Yield (is application code, label) for each application frame, and once for each sequence of library frames."""
    for is_library, run in groupby(frames, lambda frame: frame.kind == "library"):
        if is_library:
            yield False, " → ".join(dict.fromkeys(package for frame in run if (package := _package(frame.file))))
        else:
            yield from ((True, label) for label in dict.fromkeys(f"{frame.name}  {frame.place}" for frame in run))


def _package(file: str) -> str:
    return re.split(r"[/.]", file)[0].strip("<>") or file


def _placed(stacks: Sequence[_Folded], x: float, unit: float, level: int = 0) -> Iterator[_Box]:
    """Group the stacks by their label at this level; yield a box for each group, widest first, and its child boxes."""
    groups = defaultdict[tuple[bool, str], list[_Folded]](list)
    for labels, wall in stacks:
        if len(labels) > level:
            groups[labels[level]].append((labels, wall))
    widths = {label: unit * sum(wall for _, wall in group) for label, group in groups.items()}
    for label, group in sorted(groups.items(), key=lambda item: -widths[item[0]]):
        yield *label, x, widths[label], level
        yield from _placed(group, x, unit, level + 1)
        x += widths[label]
