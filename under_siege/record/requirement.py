"""Define how a result stores a requirement. The module `judge/goal.py` parses its text."""

import msgspec


class Required(msgspec.Struct, frozen=True):
    """A requirement that the cases of a result, except the ceiling, must meet."""

    text: str  # such as `ping p99 < 50ms`
    server: str = ""  # empty: applies to all servers
