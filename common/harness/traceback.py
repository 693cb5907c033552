"""What a server's own traceback says, from the end of what it prints on stderr."""

import re

from common.model.legible import legible

LONGEST = 200
_HEAD = re.compile(r"^(?P<before>.*?)Traceback \(most recent call last\):\s*$", re.MULTILINE)


def last_error(stderr: str) -> str:
    """The line that ends the last traceback, `KeyError: 'x'`; empty where there is none, or it isn't complete."""
    heads = list(_HEAD.finditer(stderr))
    if not heads:
        return ""
    # Of a group it is drawn with bars, which stand before all of its lines; what a logger writes stands before one.
    margin = heads[-1]["before"] if re.fullmatch(r"[\s|+]*", heads[-1]["before"]) else ""
    for line in stderr[heads[-1].end() :].splitlines()[1:]:
        text = line[len(margin) :]
        if text.strip() and not text.startswith((" ", "\t")):
            said = legible(text.strip())
            return said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"
    return ""
