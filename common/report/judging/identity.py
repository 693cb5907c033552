"""What identifies a case: the point on every axis that it was measured at."""

from typing import NamedTuple

from common.report.judging.summary import Summary


class Identity(NamedTuple):
    """Two cases are the same one if all of this is the same."""

    server: str
    task: str
    users: int
    python: str
    parameters: tuple[tuple[str, str | int], ...]  # the values of further axes, in the order of their names


def identity(case: Summary) -> Identity:
    """Of a case in any result."""
    return Identity(case.server, case.task, case.users, case.python, tuple(sorted(case.parameters.items())))
