"""Draw profiles as flame graphs with folded library frames, below a bar that shows what the event loops did."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby

from under_siege.profile.diagnosis import LOOP_SHARES, Diagnosis
from under_siege.profile.sampler import Frame
from under_siege.show.charts import Chart, Rows, kind, layer, quantity

_LEAST, _MOST_DEPTH = 0.002, 30  # share of the width of the smallest box, and maximum number of levels
_LEAST_NAMED = 0.03  # share of the width of the smallest box with a name
_COLOURS = ["var(--work)", "var(--mute)", "var(--late)", "var(--grid)"]
_Folded = tuple[list[tuple[bool, str]], float]  # (is application code, label) for each frame; share of time
_Box = tuple[bool, str, float, float, int]  # whether it is application code, label, left edge, width, level


def flame_graph(diagnosis: Diagnosis) -> Chart:
    """Draw a flame graph from top to bottom; the width of a box is its share of the time in which threads were busy."""
    # Stacks that occur only in the CPU and GIL passes have no width.
    busy = [stack for stack in [*diagnosis.busy_on_loop, *diagnosis.in_threads] if stack.wall]
    stacks = [(list(_folded(stack.frames)), stack.wall) for stack in busy]
    boxes = [
        {"is_own": is_own, "name": name, "from": left, "to": left + width, "level": level}
        for is_own, name, left, width, level in _placed(stacks, 0.0, 1 / max(1e-9, sum(wall for _, wall in stacks)))
        if width >= _LEAST and level < _MOST_DEPTH
    ]
    x = quantity("from", scale={"domain": [0, 1]}, axis=None)
    place = {"x": x, "x2": {"field": "to"}, "y": {"field": "level", "type": "ordinal", "axis": None}}
    loop = _loop_shares(diagnosis) if diagnosis.loop_processes else []
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
                "transform": [{"filter": f"datum.to - datum.from > {_LEAST_NAMED}"}],
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
