"""Provide the command `bench.py drill`: inject faults, and show which servers survive them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from under_siege.cli_options import (
    CommonOptions,
    Documented,
    LazyChoice,
    measure_and_show,
    measuring_options,
    target_options,
)

if TYPE_CHECKING:
    from under_siege.record.result import Result
    from under_siege.show.view import View


def fault_names() -> Sequence[str]:
    from under_siege.drill.faults import FAULT_OPTIONS

    return FAULT_OPTIONS


FAULT = "Inject only this fault."
EXAMPLES = {
    "drill 4 8 9": "three strategies, with all faults",
    "drill app:app --fault worker": "an application, with one fault",
}


@click.command(cls=Documented, examples=EXAMPLES)
@click.option("--fault", "faults", metavar="FAULT", type=LazyChoice(fault_names), multiple=True, help=FAULT)
@click.option("--rounds", metavar="N", type=click.IntRange(1, 100), default=3, help="How often to inject each fault.")
@target_options
@measuring_options
def drill(servers: tuple[str, ...], faults: tuple[str, ...], rounds: int, options: CommonOptions) -> None:
    """Inject faults, and show which servers survive them.

    Faults include killed and stopped workers, reloads, clients that disconnect or read slowly, ten times the users,
    and, for jobs, a killed server. They affect only processes that this program starts. TARGET is the same as for run.
    Exit 1 if a drill failed or a fault left a server dead; else 3 if a fault could not be injected; else 0.
    """
    from under_siege.drill.drill_run import drill_plan, run_drill
    from under_siege.suite.selection import suite_of

    suite = suite_of(servers, options.target)
    plan, count = drill_plan(suite, faults, options.axes, rounds=rounds, seed=options.seed)
    measure_and_show(count, partial(run_drill, plan, faults), options, _views)


def _views() -> Callable[["Result"], Sequence["View"]]:
    from under_siege.drill.view import view  # loads numpy and scipy

    return lambda result: [view(result)]
