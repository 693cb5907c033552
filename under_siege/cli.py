"""Register the commands of `under-siege` and `bench.py`: those in `ELSEWHERE`, and three short ones."""

import contextlib
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from common.errors import BadInputError
from under_siege import __version__
from under_siege.cli_options import OneLineErrors, out_option, print_error, request_options, writable
from under_siege.paths import INVOCATION, PROGRAM
from under_siege.record.files import write_atomically

IN_FOLDERS = ("run", "capacity", "drill", "trace", "profile", "compare", "lesson")
ELSEWHERE = {
    **{name: f"under_siege.{name}.command:{name}" for name in IN_FOLDERS},
    "try": "under_siege.try_task.command:try_tasks",
    "report": "under_siege.report:report",
    "lesson check": "under_siege.lesson.command:check_exercise",
}
EXAMPLES = {
    "run app:app --path /report": "where should its work run?",
    "run": "compare all strategies",
    "run 2 4 --task module:function": "compare two of them with your task",
    "try module:function": "a first estimate, in seconds",
}


@click.group(cls=OneLineErrors, elsewhere=ELSEWHERE, examples=EXAMPLES)
@click.version_option(__version__, prog_name="under-siege")
def bench() -> None:
    """Which concurrency strategy should run your long task?

    Each strategy is a small server in servers/. This program starts one server after the other, puts each under
    siege, and compares throughput, health-check latency under load, CPU time and memory.
    """


@bench.command(name="list", examples={"list": "names and titles", "list --json": "the same for a program"})
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_servers(as_json: bool) -> None:
    """List all strategies."""
    from under_siege.suite.server_files import all_strategies, catalogue_as_json, catalogue_as_text

    strategies = all_strategies()
    click.echo(catalogue_as_json(strategies) if as_json else catalogue_as_text(strategies))


@bench.command(
    examples={
        "init app:app --path /report": "write suite.toml",
        "init shop.main:app -o perf/suite.toml": "write another file",
    }
)
@click.argument("app", default="app:app")
@out_option("Suite: the file to write.", default=Path("suite.toml"))
@click.option("--python", metavar="PATH", multiple=True, help="Python of the application.  [default: its environment]")
@request_options
def init(app: str, out: Path, python: tuple[str, ...], **request: Any) -> None:
    """Write a suite file for an application in this folder.

    APP is the application as module:name, such as shop.main:app.
    """
    from under_siege.suite.suite_from_application import TargetOptions, suite_text

    if out.exists():
        raise BadInputError(f"{str(out)!r} already exists; use --out FILE with a new file name")
    options = TargetOptions(pythons=python, tell=print_error, **request)
    text, needed = suite_text(app, out, Path.cwd(), options)
    with contextlib.suppress(OSError):  # `writable` reports the error
        out.parent.mkdir(exist_ok=True)
    write_atomically(writable(out), text.encode())
    python_option = f" --python {shlex.quote(needed)}" if needed else ""
    click.echo(f"{out} written: check its request and its ping, then run: {INVOCATION} run {out}{python_option}")


@bench.command(examples={"doctor": "check this machine", f"doctor && {PROGRAM} run": "run only without problems"})
def doctor() -> None:
    """Check whether this machine is ready for a run.

    Each problem is printed with a remedy. Exit 1 if there is a problem.
    """
    from under_siege.host.machine_check import examine

    findings = examine()
    for finding in findings:
        click.echo(f"{finding.what}; {finding.remedy}")
    if not findings:
        click.echo("No problems found.")
    sys.exit(1 if findings else 0)
