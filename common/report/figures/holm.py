"""Many tests at once: how sure each has to be, so that seldom any of them is a false alarm."""

from collections.abc import Sequence
from typing import NamedTuple


class Step(NamedTuple):
    """One of the tests: its chance, adjusted for all others, and the level that its own chance has to stay under."""

    adjusted: float
    level: float


def holm(chances: Sequence[float], level: float) -> list[Step]:
    """The step-down procedure of Holm (Scandinavian Journal of Statistics 6, 1979).

    Whatever the tests have to do with each other, anything at all is called a difference where there is none in at
    most `level` of all comparisons. `adjusted` is under `level` exactly where the chance is under its own level.
    """
    steps, highest, stopped_at = [Step(1.0, level)] * len(chances), 0.0, None
    for rank, place in enumerate(sorted(range(len(chances)), key=lambda place: chances[place])):
        left = len(chances) - rank
        highest = max(highest, min(1.0, left * chances[place]))
        if stopped_at is None and highest >= level:
            stopped_at = left
        steps[place] = Step(highest, level / (stopped_at or left))
    return steps
