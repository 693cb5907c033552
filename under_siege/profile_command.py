"""Provide the command `bench.py profile`: show which lines block each server under load."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from under_siege.cli_options import FILE, Duration, target_options, writable
from under_siege.paths import USERS

if TYPE_CHECKING:
    from under_siege.suite.generated_suite import TargetOptions


@click.command()
@click.option(
    "--users",
    type=click.IntRange(1),
    multiple=True,
    help=f"Concurrent users; {USERS} unless a suite sets it.",
)
@click.option("--time", "time_s", type=Duration(), default="20s", help="How long to sample each server.")
@target_options
@click.option(
    "--out",
    type=FILE,
    help="Write a page or flame graph (FILE.html, .svg, .png), raw values (.json), or a .speedscope.json file.",
)
@click.option("--quiet", is_flag=True, help="Don't show progress.")
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
    from under_siege.result_output import Report, check_suffix, show
    from under_siege.show.progress_bar import ProgressBar
    from under_siege.suite.selection import suite_of

    if out is not None:
        check_suffix(writable(out))
    plan = make_plan(suite_of(servers, target), axes, time_s=time_s, rounds=0)
    with ProgressBar(len(plan.cases), quiet=quiet) as progress:
        result, stopped_by = profile_servers(plan, time_s, progress, [Path(sys.argv[0]).name, *sys.argv[1:]])
    if result.profiles:
        show(Report(result).for_terminal("profile"))
        if out is not None:
            Report(result).write_profiles(out)
    sys.exit(128 + stopped_by if stopped_by else int(any(profile.failure for profile in result.profiles)))
