"""Provide the command `bench.py capacity`: find the highest request rate that meets all goals."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from under_siege.cli_options import (
    CommonOptions,
    GroupedOptions,
    SiegeTime,
    measure_and_show,
    measuring_options,
    target_options,
)

if TYPE_CHECKING:
    from under_siege.record.result import Result
    from under_siege.show.view import View


@click.command(cls=GroupedOptions)
@click.option("--goal", "goals", multiple=True, help="A goal; may be repeated.  [default: p99 < 1s, ping p99 < 50ms]")
@click.option("--time", "time_s", type=SiegeTime(), default="auto", help="Duration of each search; auto: 60s or more.")
@target_options
@measuring_options
def capacity(servers: tuple[str, ...], goals: tuple[str, ...], time_s: float | None, options: CommonOptions) -> None:
    """Find the highest request rate that meets all goals.

    The rate of each server has a confidence interval. Requests arrive as a Poisson process (open loop). TARGET is the
    same as for run. Exit 1 if a search failed; else 3 if an interval is wider than about ±20 %; else 0.
    """
    from under_siege.capacity.search import USUAL_STEPS, capacity_plan, run_capacity
    from under_siege.suite.selection import suite_of

    plan = capacity_plan(suite_of(servers, options.target), goals, options.axes, seed=options.seed)
    count = USUAL_STEPS * len(plan.cases) + len(plan.ceilings)
    measure_and_show(count, partial(run_capacity, plan, goals, time_s), options, _views)


def _views() -> Callable[["Result"], Sequence["View"]]:
    from under_siege.capacity.view import view  # loads numpy and scipy

    return lambda result: [view(result)]
