"""Provide the command `bench.py trace`: send simultaneous requests, and draw a timeline of them."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from under_siege.cli_options import (
    TRACED_REQUESTS,
    Documented,
    command_line,
    exit_with,
    out_option,
    quiet_option,
    target_options,
    writable,
)

if TYPE_CHECKING:
    from under_siege.record.result import Result
    from under_siege.suite.suite_from_application import TargetOptions


EXAMPLES = {
    "trace 2 3 4": "three strategies",
    "trace app:app --path /report -o timeline.svg": "as a chart",
}


@click.command(cls=Documented, examples=EXAMPLES)
@click.option("--requests", metavar="N", type=click.IntRange(1, 100), default=TRACED_REQUESTS, help="Requests to send.")
@target_options
@out_option("Chart (.svg, .png, .html) or raw values (.json).")
@click.option("--side-by-side", is_flag=True, help="Draw timelines side by side.")
@click.option("--step", is_flag=True, help="Show one request at a time; press a key for the next.")
@quiet_option
def trace(
    servers: tuple[str, ...],
    requests: int,
    target: "TargetOptions",
    out: Path | None,
    side_by_side: bool,
    step: bool,
    quiet: bool,
    **axes: tuple[str | int, ...],
) -> None:
    """Send simultaneous requests and draw a timeline of them.

    The timeline also shows pings. TARGET is the same as for run.
    """
    from under_siege.measure.plan import make_plan
    from under_siege.show.chart_file import check_suffix, write_chart
    from under_siege.show.formats.table import show
    from under_siege.show.progress_bar import ProgressBar
    from under_siege.suite.selection import suite_of
    from under_siege.trace.trace_run import trace_servers
    from under_siege.trace.view import view

    if out is not None:
        check_suffix(writable(out))
    suite = suite_of(servers, target, command="trace")
    plan = make_plan(suite, {**axes, "users": [requests]}, time_s=0, rounds=1)
    with ProgressBar(len(plan.cases), quiet=quiet) as progress:
        result, stopped_by = trace_servers(plan, requests, progress, command_line())
    traced = view(result, side_by_side=side_by_side)
    if out is not None:
        write_chart(result, traced, "timeline", out)
    elif step:
        show_steps(result, side_by_side=side_by_side)
    elif result.traces:
        show(traced)
    exit_with(traced.exit_code, stopped_by)


def show_steps(result: "Result", *, side_by_side: bool = False) -> None:
    """Print one request after the other, and wait for a key in between."""
    from under_siege.show.formats.table import show_renderable
    from under_siege.trace.view import steps

    for number, state in enumerate(steps(result, side_by_side=side_by_side)):
        if number > 1:
            click.pause("(press a key for the next request)")  # does nothing without a terminal
        show_renderable(state)
