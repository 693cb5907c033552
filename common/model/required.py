"""What is required: a goal that every case has to reach, or those of one server."""

from collections.abc import Sequence

import msgspec

from common.model.goal import Goal, goal


class Required(msgspec.Struct, frozen=True):
    """A requirement, as it is kept with a result. The ceiling is what others are measured against, and never meant."""

    text: str  # such as `ping p99 < 50ms`
    server: str = ""  # whose cases it is about; empty: all

    @property
    def goal(self) -> Goal:
        """What that means; raises BadInputError: it can't be read."""
        return goal(self.text)


def required(texts: Sequence[str], server: str = "") -> tuple[Required, ...]:
    """Each once, with single spaces; raises BadInputError: one can't be read."""
    return tuple(Required(text, server) for text in dict.fromkeys(goal(text).text for text in texts))


def together(*several: Sequence[Required]) -> list[Required]:
    """All of them, each once."""
    return list(dict.fromkeys(one for some in several for one in some))
