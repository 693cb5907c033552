"""Search for the number of workers, and of threads, that serves best: `--workers auto`.

The search climbs a small grid from its lowest point (hill climbing): more workers or threads are measured as long as
the last step made the server clearly faster. Those that may be the best are then measured again (racing), as in
`stopping_rule`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from under_siege.judge import stopping_rule
from under_siege.judge.ranking import Comparison, summarize
from under_siege.judge.stopping_rule import Decision
from under_siege.judge.verdict_rules import FAILED
from under_siege.record.case import THREADS, Case
from under_siege.record.record import OUT_OF_MEMORY
from under_siege.record.result import Result

THREAD_COUNTS = (2, 8, 32)  # for each process
MOST_WORKERS = 16  # or twice the number of CPUs
WORTH_MORE = 1.1  # minimum growth of the rate for which more workers or threads are worth their memory
NEAR_BEST = 0.9  # minimum share of the best rate from which the search goes on

Point = tuple[int, ...]  # a value on each tuned axis


def candidates(name: str, cpus: int) -> tuple[int, ...]:
    """Return the values to try on a tuned axis, in ascending order; the workers are powers of two."""
    if name == THREADS:
        return THREAD_COUNTS
    return tuple(2**power for power in range(max(MOST_WORKERS, 2 * cpus).bit_length()))


def wanted(cases: Sequence[Case], tuned: Collection[str], result: Result) -> Decision:
    """Return the cases to measure in the next round, or none if the search is over.

    Args:
        cases: all candidates.
        tuned: the axes that are searched.
    """
    if not result.records:
        return Decision([case for alike in _grids(cases, tuned) for case in _next(alike, {})])
    comparison = summarize(result)
    rates, too_large, once_failed = _rates(comparison), set[Case](), list[Case]()
    for summary in comparison.cases:
        if any(reason.code == OUT_OF_MEMORY for reason in summary.reasons):
            too_large.add(summary.case)
        elif summary.verdict == FAILED and summary.rounds == 1:
            once_failed.append(summary.case)
    new = [case for alike in _grids(cases, tuned) for case in _next(alike, rates, too_large)]
    new.sort(key=lambda case: -max(rates.get(other) or 0.0 for other in cases if other.server == case.server))
    return Decision(list(dict.fromkeys([*new, *once_failed, *stopping_rule.wanted(result).cases])))


def _rates(comparison: Comparison) -> dict[Case, float | None]:
    """Return the rate of each measured case, from the rounds that did not fail, or None if all failed."""
    estimates = zip(comparison.cases, comparison.measured["rate_per_s"], strict=True)
    return {
        summary.case: estimate.mean if estimate else None if summary.verdict == FAILED else 0.0
        for summary, estimate in estimates
    }


def _grids(cases: Sequence[Case], tuned: Collection[str]) -> list[dict[Point, Case]]:
    """Return the cases that differ only on the tuned axes, by their values on these axes."""
    grids: dict[Case, dict[Point, Case]] = {}
    for case in cases:
        grids.setdefault(case.without(tuned), {})[tuple(int(value) for _, value in case.on(tuned))] = case
    return list(grids.values())


def _next(
    grid: Mapping[Point, Case], rates: Mapping[Case, float | None], too_large: Collection[Case] = ()
) -> Iterator[Case]:
    """Yield the next points of a grid: the lowest and its neighbours, then one step beyond each step that was worth it.

    The steps pass over points that failed. No point is measured if a lower one ran out of memory, because it would need
    even more.

    Args:
        rates: the rate of each measured case, or None if it failed.
        too_large: the cases that ran out of memory.
    """
    steps = [sorted({point[axis] for point in grid}) for axis in range(len(next(iter(grid))))]
    lowest = min(grid)
    if grid[lowest] not in rates:
        yield from (grid[lowest], *(grid[up] for up in _neighbours(lowest, steps, 1)))
        return
    known = {point: rate for point, case in grid.items() if (rate := rates.get(case)) is not None}
    failed = {point for point, case in grid.items() if case in rates and point not in known}
    tops = [point for point, case in grid.items() if case in too_large]
    for point, rate in known.items():
        is_worth_it = all(
            rate > WORTH_MORE * known[down] for down in _beyond(point, steps, -1, failed) if down in known
        )
        if is_worth_it and rate >= NEAR_BEST * max(known.values()):
            for up in _beyond(point, steps, 1, failed):
                if grid[up] not in rates and not any(_is_above(up, top) for top in tops):
                    yield grid[up]


def _beyond(point: Point, steps: Sequence[Sequence[int]], by: int, failed: Collection[Point]) -> Iterator[Point]:
    """Yield the neighbours of a point, as `_neighbours` does; in place of one that failed, those beyond it."""
    for neighbour in _neighbours(point, steps, by):
        if neighbour in failed:
            yield from _beyond(neighbour, steps, by, failed)
        else:
            yield neighbour


def _neighbours(point: Point, steps: Sequence[Sequence[int]], by: int) -> list[Point]:
    """Return the points that are one step from a point on one axis: upwards if `by` is 1, downwards if it is -1."""
    places = [(axis, values.index(point[axis]) + by) for axis, values in enumerate(steps)]
    return [
        (*point[:axis], steps[axis][place], *point[axis + 1 :])
        for axis, place in places
        if 0 <= place < len(steps[axis])
    ]


def _is_above(point: Point, other: Point) -> bool:
    return all(value >= low for value, low in zip(point, other, strict=True))
