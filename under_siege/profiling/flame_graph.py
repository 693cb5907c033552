"""Show profiles as flame graphs: as charts, with the frameworks folded, and as a file for speedscope.app.

A bar above the chart shows what the event loop did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import msgspec

from under_siege.charts.canvas import Drawing, Look, Rows, Sheet
from under_siege.charts.html_page import Picture
from under_siege.model.profile import Profile
from under_siege.model.record import Result
from under_siege.profiling.diagnosis import Diagnosis
from under_siege.profiling.profile_text import diagnosed
from under_siege.profiling.sampler import Frame
from under_siege.report.case_names import full_name

SPEEDSCOPE = ".speedscope.json"
_HOW = (
    "The bar shows what the event loop did. Below it, each box is a function of your code (bold) or a library, and the "
    "boxes below it are what it called. A box is as wide as its share of the time in which threads were not idle."
)
_BOX, _LETTER, _LEAST_PX, _MOST_DEPTH = 20, 6.1, 1.5, 30
_SHARES = {"app": "your code", "framework": "framework", "gil": "waits for the GIL", "idle": "idle"}


def profile_pictures(result: Result) -> Iterator[Picture]:
    """Yield a flame graph for each profile, with the diagnosis above it."""
    cases = [profile.case for profile in result.profiles]
    for number, profile in enumerate(result.profiles):
        name, lines = full_name(profile.case, cases), diagnosed(profile)
        if not profile.failure:
            diagnosis = Diagnosis(profile)
            yield Picture(
                "profile",
                "",
                "\n".join([*lines[1:], *([] if number else [_HOW])]),
                lambda look, diagnosis=diagnosis: flame_graph(diagnosis, look),  # type: ignore[misc]
                f"Flame graph of {name}. {' '.join(lines)}",
                headline=f"{name}: {lines[0].removesuffix('.')}",
            )


@dataclass(slots=True)
class _Node:
    """A box of the flame graph: samples with the same frames up to here."""

    is_own: bool
    wall: float = 0.0
    children: dict[str, _Node] = field(default_factory=dict)


def flame_graph(diagnosis: Diagnosis, look: Look) -> Drawing:
    """Draw the stacks from top to bottom; a box is as wide as its share of all time in which threads were busy."""
    root, width = _tree(diagnosis), look.width - 8.0
    boxes, names = list[dict[str, object]](), list[dict[str, object]]()
    bar, bar_names = _loop_bar(diagnosis, width) if diagnosis.loop_processes else ([], [])
    top, depth = max((row["y"] + 24.0 for row in bar_names), default=0.0), 0
    for label, node, x, share, level in _placed(root, 0.0, 1.0, 0):
        left, right, y = x * width, (x + share) * width, top + level * _BOX
        if right - left < _LEAST_PX or level >= _MOST_DEPTH:
            continue
        depth, row = max(depth, level + 1), {"own": node.is_own}
        boxes.append({**row, "x": left, "x2": right - 0.8, "y": y, "y2": y + _BOX - 1.5})
        names.append({**row, "x": left + 4, "y": y + _BOX / 2 - 1, "text": _short(label, right - left - 8)})
    sheet = Sheet(width, top + depth * _BOX, {"domain": [0, width], "nice": False}, None)
    own, library = ([row for row in boxes if row["own"] is kind] for kind in (True, False))
    texts = [[row for row in names if row["own"] is kind and row["text"]] for kind in (True, False)]
    return sheet.drawn(
        *(
            sheet.bars(f"loop_{index}", [row], color=color)
            for index, (row, color) in enumerate(zip(bar, _colors(look), strict=False))
        ),
        sheet.text("loop_names", bar_names, align="left", fontSize=11.5, color=look.ink),
        sheet.bars("library", library, color=look.grid),
        sheet.bars("own", own, color=look.wait, stroke=look.work, strokeWidth=1),
        sheet.text("own_names", texts[0], align="left", fontSize=11.5, fontWeight="bold", color=look.ink),
        sheet.text("library_names", texts[1], align="left", fontSize=11, color=look.quiet),
    )


def _colors(look: Look) -> tuple[str, ...]:
    return look.work, look.mute, look.late, look.grid


def _loop_bar(diagnosis: Diagnosis, width: float) -> tuple[Rows, Rows]:
    """Return the parts of the bar, and the legend below it, in as many lines as needed."""
    bar, names, x, at, y = [], [], 0.0, 0.0, _BOX + 6
    for key, name in _SHARES.items():
        share = diagnosis.loop_shares[key]
        bar.append({"x": x, "x2": x + share * width, "y": 0, "y2": _BOX - 4})
        text = f"{name} {100 * share:.0f} %"
        if at + _LETTER * len(text) > width:
            at, y = 0.0, y + _BOX - 4
        names.append({"x": at, "y": y, "text": text})
        x, at = x + share * width, at + _LETTER * (len(text) + 3)
    return bar, names


def _tree(diagnosis: Diagnosis) -> _Node:
    root = _Node(is_own=False)
    for stack in [*diagnosis.busy_on_loop, *diagnosis.in_threads]:
        if not stack.wall:  # seen only in the passes for CPU and GIL
            continue
        root.wall += stack.wall
        node = root
        for is_own, label in _folded(stack.frames):
            node = node.children.setdefault(label, _Node(is_own))
            node.wall += stack.wall
    return root


def _folded(frames: Sequence[Frame]) -> Iterator[tuple[bool, str]]:
    """Yield a label for each frame of the application, and one for each run of library frames between them."""
    for is_library, run in groupby(frames, lambda frame: frame.kind == "library"):
        if is_library:
            yield False, " → ".join(dict.fromkeys(package for frame in run if (package := _package(frame.file))))
        else:
            yield from (
                (True, label) for label in dict.fromkeys(f"{each.function}  {each.file}:{each.line}" for each in run)
            )


def _package(file: str) -> str:
    return re.split(r"[/.]", file)[0].strip("<>") or file


def _placed(node: _Node, x: float, share: float, level: int) -> Iterator[tuple[str, _Node, float, float, int]]:
    """Yield each box with its left edge and width, as shares of the whole, the widest first."""
    for label, child in sorted(node.children.items(), key=lambda item: -item[1].wall):
        of_child = share * child.wall / node.wall
        yield label, child, x, of_child, level
        yield from _placed(child, x, of_child, level + 1)
        x += of_child


def _short(text: str, width: float) -> str:
    letters = int(width / _LETTER)
    return text if len(text) <= letters else f"{text[: letters - 1]}…" if letters > 4 else ""


def as_speedscope(result: Result) -> bytes:
    """Return the profiles in the file format of speedscope.app: one sampled profile for each thread."""
    cases = [profile.case for profile in result.profiles]
    frames = list[dict[str, Any]]()
    profiles = [
        each for profile in result.profiles for each in _threads(profile, full_name(profile.case, cases), frames)
    ]
    schema = "https://www.speedscope.app/file-format-schema.json"
    return msgspec.json.encode({"$schema": schema, "shared": {"frames": frames}, "profiles": profiles})


def _threads(profile: Profile, name: str, frames: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a profile for each thread; add its frames to those of all profiles."""
    table, stacks, first = profile.frames, profile.stacks, len(frames)
    places = zip(table.function, table.file, table.line, strict=True)
    frames += [{"name": function, "file": file, "line": line} for function, file, line in places]
    for pid, thread in dict.fromkeys(zip(stacks.pid, stacks.thread, strict=True)):
        rows = [
            ([first + index for index in row], wall)
            for of_pid, of_thread, row, wall in zip(stacks.pid, stacks.thread, stacks.frames, stacks.wall, strict=True)
            if (of_pid, of_thread) == (pid, thread) and wall
        ]
        yield {
            "type": "sampled",
            "name": f"{name}: process {pid}, {thread or 'thread'}",
            "unit": "none",
            "startValue": 0,
            "endValue": sum(wall for _, wall in rows),
            "samples": [row for row, _ in rows],
            "weights": [wall for _, wall in rows],
        }
