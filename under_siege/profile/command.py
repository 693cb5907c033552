"""Provide the command `bench.py profile`: show which lines block each server under load."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from under_siege.cli_options import (
    Documented,
    Duration,
    command_line,
    exit_with,
    out_option,
    quiet_option,
    target_options,
    time_option,
    users_option,
    writable,
)

if TYPE_CHECKING:
    from under_siege.suite.suite_from_application import TargetOptions


EXAMPLES = {
    "profile app:app --path /report": "an application",
    "profile 2 3 4 -o profile.html": "flame graphs",
}


@click.command(cls=Documented, examples=EXAMPLES)
@users_option
@time_option(Duration(), "20s", "How long to sample each server.")
@target_options
@out_option("Chart: a flame graph (.svg, .png, .html); or raw values (.json).")
@quiet_option
def profile(
    servers: tuple[str, ...],
    time_s: float,
    target: "TargetOptions",
    out: Path | None,
    quiet: bool,
    **axes: tuple[str | int, ...],
) -> None:
    """Show the line of code that blocks each server under load.

    py-spy samples all Python processes of a server from outside while the server is under load. TARGET is the same as
    for run. Exit 1 if a server could not be profiled.
    """
    from under_siege.measure.plan import make_plan
    from under_siege.profile.profile_run import profile_servers
    from under_siege.profile.view import view
    from under_siege.show.chart_file import check_suffix, write_chart
    from under_siege.show.formats.table import show
    from under_siege.show.progress_bar import ProgressBar
    from under_siege.suite.selection import suite_of

    if out is not None:
        check_suffix(writable(out))
    plan = make_plan(suite_of(servers, target), axes, time_s=time_s, rounds=1)
    with ProgressBar(len(plan.cases), quiet=quiet) as progress:
        result, stopped_by = profile_servers(plan, time_s, progress, command_line())
    profiled = view(result)
    if result.profiles:
        show(profiled)
    if result.profiles and out is not None:
        write_chart(result, profiled, "profile", out)
    exit_with(profiled.exit_code, stopped_by)
