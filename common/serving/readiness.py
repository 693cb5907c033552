"""Whether this server can work: each part of it that might not be able to says why, when it is asked."""

from collections.abc import Callable

_reasons: list[Callable[[], str]] = []


def unready_while(reason: Callable[[], str]) -> None:
    """Asks this from now on, too; it gives one line, empty while nothing is wrong."""
    _reasons.append(reason)


def why_not_ready() -> str:
    """The first reason why this server can't work now; empty if there is none."""
    return next((text for reason in _reasons if (text := reason())), "")
