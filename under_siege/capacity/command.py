"""Provide the command `bench.py capacity`: find the highest request rate that meets all goals."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from under_siege.cli_options import (
    CommonOptions,
    Documented,
    SiegeTime,
    measure_and_show,
    measuring_options,
    target_options,
    time_option,
)

if TYPE_CHECKING:
    from under_siege.record.result import Result
    from under_siege.show.view import View


GOAL = """Limit, as for run --require.  [default: p99 < 1s, ping p99 < 50ms]"""
EXAMPLES = {
    "capacity app:app --path /report": "with the default goals",
    "capacity 3 4 --goal 'p99 < 300ms'": "with another goal",
}


@click.command(cls=Documented, examples=EXAMPLES)
@click.option("--goal", "goals", metavar="LIMIT", multiple=True, help=GOAL)
@time_option(SiegeTime(), "auto", "Duration of each search; auto: 60s or more.")
@target_options
@measuring_options
def capacity(servers: tuple[str, ...], goals: tuple[str, ...], time_s: float | None, options: CommonOptions) -> None:
    """Find the highest request rate that meets all goals.

    The rate of each server has a confidence interval. Requests arrive as a Poisson process (open loop). TARGET is the
    same as for run.

    Exit 1 if a search failed, or a goal for the rate ("rate >= 30/s") is missed; else 3 if it is undecided, or an
    interval is wider than about ±20 %; else 0.
    """
    from under_siege.capacity.search import USUAL_STEPS, capacity_plan, run_capacity
    from under_siege.suite.selection import suite_of

    plan = capacity_plan(suite_of(servers, options.target), goals, options.axes, seed=options.seed)
    count = USUAL_STEPS * len(plan.cases) + len(plan.ceilings)
    measure_and_show(count, partial(run_capacity, plan, goals, time_s), options, _views)


def _views() -> Callable[["Result"], Sequence["View"]]:
    from under_siege.capacity.view import view  # loads numpy and scipy

    return lambda result: [view(result)]
