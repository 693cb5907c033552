"""The exercises of the lesson: what each is checked by, as lesson/exercises/exercises.toml tells it."""

import tomllib
from functools import cache
from pathlib import Path

import msgspec

from common.errors import BadInputError
from common.lesson.step import LESSON, Claim

TOLD = LESSON / "exercises" / "exercises.toml"


class Exercise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a server is measured, and what has to be true of it beside that nothing is flagged."""

    beside: str = "1"  # a strategy that is measured, too
    task: str = "primes"
    users: int = 4
    workers: int | None = None  # of both; None: as many as they have by themselves
    hint: str = ""
    claims: tuple[Claim, ...] = ()


@cache
def all_exercises() -> dict[str, Exercise]:
    """By the stems of their files; raises BadInputError: the file is not right."""
    try:
        return msgspec.convert(tomllib.loads(TOLD.read_text(encoding="utf-8")), dict[str, Exercise])
    except (OSError, ValueError) as error:
        raise BadInputError(f"{TOLD} has no exercises: {error}") from None


def exercise_of(file: Path) -> Exercise | None:
    """The exercise of that name, wherever a copy of it is; None if it is a server of another name."""
    return all_exercises().get(file.stem)
