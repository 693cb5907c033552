"""Provide the command `bench.py try`: show which strategies suit a task."""

import sys

import click

from under_siege.cli_options import Documented, Duration, print_error

EXAMPLES = {"try reports:render": "a function of yours", "try \"reports:render('acme', 3)\"": "with arguments"}


@click.command(name="try", cls=Documented, examples=EXAMPLES)
@click.argument("tasks", metavar="[TASK]...", nargs=-1)
@click.option(
    "--limit",
    "limit_s",
    metavar="TIME",
    type=Duration(),
    default="30s",
    help="Stop the first run of TASK after this time.",
)
@click.option(
    "--python", metavar="PATH", default=sys.executable, show_default="this one", help="Python that runs TASK."
)
def try_tasks(tasks: tuple[str, ...], limit_s: float, python: str) -> None:
    """Show within seconds which strategies suit a task.

    TASK is a built-in task or your own function: module:function or, with literal arguments, "module:function('acme',
    3)". Without TASK, all built-in tasks are tried. Exit 1 if, for any of the tasks, no strategy is worth a run.
    """
    from common.task import BUILTIN_TASKS
    from under_siege.host.interpreter import interpreter
    from under_siege.show.formats.table import show
    from under_siege.suite.server_files import all_strategies
    from under_siege.try_task.task_profile import profile_task
    from under_siege.try_task.view import view

    strategies, exit_codes = all_strategies(), []
    for index, task in enumerate(tasks or BUILTIN_TASKS):
        profile, stopped_by = profile_task(task, interpreter(python), limit_s, print_error)
        if profile is None or stopped_by:
            sys.exit(128 + (stopped_by or 0))
        if index:
            click.echo()
        advice = view(profile, strategies)
        show(advice)
        exit_codes.append(advice.exit_code)
    sys.exit(max(exit_codes))
