"""Show profiles as flame graphs, and write them for speedscope.app."""

from collections.abc import Iterator
from typing import Any

import msgspec

from under_siege.charts.html_page import Picture
from under_siege.model.profile import Profile
from under_siege.model.record import Result
from under_siege.profiling.diagnosis import Diagnosis
from under_siege.profiling.flame_graph import flame_graph
from under_siege.profiling.profile_text import diagnosed
from under_siege.report.case_names import full_name

SPEEDSCOPE = ".speedscope.json"
_HOW = (
    "The bar shows what the event loop did. Below it, each box is a function of your code (bold) or a library, and the "
    "boxes below it are what it called. A box is as wide as its share of the time in which threads were not idle."
)


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
