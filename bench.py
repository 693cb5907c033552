"""Which concurrency strategy should run your long task? Puts each one under siege and compares them."""

import sys
from pathlib import Path

import click

from common.command_line import Duration, OneLineErrors, Rounds, default_result, writable

FILE = click.Path(path_type=Path)
AT_LEAST_ONE = click.IntRange(min=1)


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
def bench() -> None:
    """Which concurrency strategy should run your long task?

    Each strategy is a small server in servers/. This starts one after the other, puts it under siege,
    and compares how much work got done and what everybody else felt meanwhile.
    """


@bench.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def list_servers(as_json: bool) -> None:
    """Show the strategies that there are."""
    from common.report.catalogue import catalogue_as_json, catalogue_as_text
    from common.strategies import all_strategies

    strategies = all_strategies()
    click.echo(catalogue_as_json(strategies) if as_json else catalogue_as_text(strategies))


@bench.command()
@click.argument("servers", metavar="[SERVER]...", nargs=-1)
@click.option("--task", "tasks", multiple=True, default=["primes"], help="primes, digest, sign_up, or module:function.")
@click.option("--users", type=AT_LEAST_ONE, multiple=True, default=[25], help="Users at the same time.")
@click.option("--time", "time_s", type=Duration(), default="4s", help="How long each siege lasts.")
@click.option("--rounds", type=Rounds(), default="3", help="How often every case takes its turn; auto: until certain.")
@click.option("--workers", type=click.IntRange(1, 1000), help="Threads or processes, for strategies that have a pool.")
@click.option("--python", "pythons", multiple=True, default=[sys.executable], help="The Python that runs the servers.")
@click.option("--seed", type=click.IntRange(min=0), help="Makes the order of the cases repeatable.")
@click.option("--out", type=FILE, help="Where the raw values go.  [default: results/<UTC time>.json]")
@click.option("--quiet", is_flag=True, help="No progress, only the result.")
def run(
    servers: tuple[str, ...],
    tasks: tuple[str, ...],
    users: tuple[int, ...],
    time_s: float,
    rounds: int | None,
    workers: int | None,
    pythons: tuple[str, ...],
    seed: int | None,
    out: Path | None,
    quiet: bool,
) -> None:
    """Start each SERVER, put it under siege, and compare.

    SERVER is a number (3), a name (3_async_threadexecutor) or the path of any script that keeps the contract;
    without any, all strategies take part. --task, --users and --python may be given more than once.
    """
    from common.harness.plan import make_plan
    from common.harness.session import conduct
    from common.harness.siege import find_siege
    from common.report.certainty import MOST_ROUNDS, uncertain
    from common.report.dresses import all_ok, show
    from common.report.progress import ProgressBar
    from common.report.table import as_table

    plan = make_plan(servers, tasks, users, pythons, workers, time_s=time_s, rounds=rounds or MOST_ROUNDS, seed=seed)
    find_siege()
    out = writable(out or default_result())
    with ProgressBar(plan.turns(), quiet=quiet) as progress:
        result, stopped_by = conduct(
            plan, out, progress, ["bench.py", *sys.argv[1:]], uncertain if rounds is None else None
        )
    if result.records:
        show(as_table(result))
        click.echo(f"Raw values: {out}", err=True)
    if stopped_by:
        sys.exit(128 + stopped_by)
    sys.exit(0 if all_ok(result) else 1)


@bench.command()
@click.argument("result", type=FILE)
@click.option("--format", "dress", type=click.Choice(["table", "json"]), default="table", help="How it is shown.")
@click.option("--out", type=FILE, help="A file instead of the terminal.")
def report(result: Path, dress: str, out: Path | None) -> None:
    """Show the RESULT of a run again."""
    from common.record import load
    from common.report.dresses import DRESSES, show
    from common.report.table import as_table

    measured = load(result)
    if out is not None:
        writable(out).write_text(DRESSES[dress](measured) + "\n", encoding="utf-8")
    elif dress == "table":
        show(as_table(measured))
    else:
        click.echo(DRESSES[dress](measured))


@bench.command()
@click.argument("base", type=FILE)
@click.argument("new", type=FILE)
@click.option("--anyway", is_flag=True, help="Compare even what was measured on other machines, tasks or users.")
def compare(base: Path, new: Path, anyway: bool) -> None:
    """Show what changed from the result BASE to the result NEW; exit 1 if something got worse by more than noise."""
    from common.record import load
    from common.report.compare import as_table, check_comparable, sides
    from common.report.dresses import show

    before, after = load(base), load(new)
    check_comparable(before, after, anyway=anyway)
    show(as_table(before, after))
    sys.exit(1 if any(side.is_worse for side in sides(before, after)) else 0)


@bench.command()
def doctor() -> None:
    """Say what of this machine would spoil a run, and what to do about it; exit 1 if there is something."""
    from common.harness.doctor import examine

    findings = examine()
    for finding in findings:
        click.echo(f"{finding.what}; {finding.remedy}")
    if not findings:
        click.echo("Nothing here would spoil a run.")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    bench()
