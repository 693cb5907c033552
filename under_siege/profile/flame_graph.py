"""Draw profiles as flame graphs with folded library frames, below a bar that shows what the event loops did."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby

from under_siege.profile.diagnosis import LOOP_SHARES, Diagnosis
from under_siege.profile.sampler import Frame
from under_siege.show.canvas import Drawing, Rows, Sheet, Theme

_BOX, _LETTER, _LEAST_PX, _MOST_DEPTH = 20, 6.1, 1.5, 30
_Folded = tuple[list[tuple[bool, str]], float]  # (is application code, label) for each frame; share of time
_Box = tuple[bool, str, float, float, int]  # whether it is application code, label, left edge, width, level


def flame_graph(diagnosis: Diagnosis, theme: Theme) -> Drawing:
    """Draw a flame graph from top to bottom; the width of a box is its share of the time in which threads were busy."""
    width = theme.width - 8.0
    # Stacks that occur only in the CPU and GIL passes have no width.
    busy = [stack for stack in [*diagnosis.busy_on_loop, *diagnosis.in_threads] if stack.wall]
    stacks = [(list(_folded(stack.frames)), stack.wall) for stack in busy]
    unit = width / max(1e-9, sum(stack.wall for stack in busy))
    bar, legend = _loop_bar(diagnosis, width) if diagnosis.loop_processes else ([], [])
    top, depth = max((row["y"] + 24.0 for row in legend), default=0.0), 0
    boxes, names = ({True: Rows(), False: Rows()} for _ in range(2))  # True: the application; False: libraries
    for is_own, label, x, box_width, level in _placed(stacks, 0.0, unit):
        if box_width >= _LEAST_PX and level < _MOST_DEPTH:
            depth, y = max(depth, level + 1), top + level * _BOX
            boxes[is_own].append({"x": x, "x2": x + box_width - 0.8, "y": y, "y2": y + _BOX - 1.5})
            if text := _short(label, box_width - 8):
                names[is_own].append({"x": x + 4, "y": y + _BOX / 2 - 1, "text": text})
    sheet = Sheet(width, top + depth * _BOX, {"domain": [0, width], "nice": False}, None)
    colors = (theme.work, theme.mute, theme.late, theme.grid)
    return sheet.drawn(
        *(
            sheet.bars(f"loop_{key}", [row], color=color)
            for key, row, color in zip(LOOP_SHARES, bar, colors, strict=False)
        ),
        sheet.text("loop_names", legend, align="left", fontSize=11.5, color=theme.ink),
        sheet.bars("library", boxes[False], color=theme.grid),
        sheet.bars("own", boxes[True], color=theme.wait, stroke=theme.work, strokeWidth=1),
        sheet.text("own_names", names[True], align="left", fontSize=11.5, fontWeight="bold", color=theme.ink),
        sheet.text("library_names", names[False], align="left", fontSize=11, color=theme.quiet),
    )


def _loop_bar(diagnosis: Diagnosis, width: float) -> tuple[Rows, Rows]:
    """Return the parts of the bar, and the texts of its legend, which wraps onto new lines."""
    bar, names, x, at, y = [], [], 0.0, 0.0, _BOX + 6
    for key, name in LOOP_SHARES.items():
        share = diagnosis.loop_shares[key]
        bar.append({"x": x, "x2": x + share * width, "y": 0, "y2": _BOX - 4})
        text = f"{name} {100 * share:.0f} %"
        if at + _LETTER * len(text) > width:
            at, y = 0.0, y + _BOX - 4
        names.append({"x": at, "y": y, "text": text})
        x, at = x + share * width, at + _LETTER * (len(text) + 3)
    return bar, names


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


def _short(text: str, width: float) -> str:
    letters = int(width / _LETTER)
    return text if len(text) <= letters else f"{text[: letters - 1]}…" if letters > 4 else ""
