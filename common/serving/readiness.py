"""Readiness: the reasons why this server can't work now, asked for by `/ready`."""

from collections.abc import Callable

_reasons: list[Callable[[], str]] = []
_until_restart: list[str] = []


def unready_while(reason: Callable[[], str]) -> None:
    """Add a check that returns one line while the server can't work, and an empty string while it can."""
    _reasons.append(reason)


def unready_until_restart(reason: str) -> None:
    """Report this line from now on: only a restart helps."""
    _until_restart[:] = [reason]


def why_not_ready() -> str:
    """Return the first reason why this server can't work now; empty if there is none."""
    return "".join(_until_restart) or next((text for reason in _reasons if (text := reason())), "")
