"""Define the commands of `under-siege` and `bench.py`, except those in `ELSEWHERE`, which have their own modules."""

import contextlib
import gc
import math
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from common.errors import BadInputError
from under_siege import __version__
from under_siege.cli_options import (
    EXAMPLES,
    FILE,
    ONE_PICTURE,
    TRACED_REQUESTS,
    CommonOptions,
    Duration,
    LazyChoice,
    OneLineErrors,
    Percentage,
    Rounds,
    SiegeTime,
    command_line,
    exit_with,
    measuring_options,
    one_line_read_errors,
    picture_names,
    print_error,
    request_options,
    target_options,
    users_option,
    writable,
)
from under_siege.paths import INVOCATION, PROGRAM
from under_siege.record.files import write_atomically
from under_siege.show import formats

if TYPE_CHECKING:
    from under_siege.measure.plan import Plan, ProgressListener
    from under_siege.measure.racing import Decide
    from under_siege.show.view import View
    from under_siege.suite.suite import Suite

PARTS = ["timeline", "profile"]  # formats that show a part of a result, as a table does
COMPARE_FORMATS = ["table", "markdown", "json"]
USUAL_ROUNDS = 3  # typical number of rounds with --rounds auto, for the progress bar
REVISION_ROUNDS = 8  # default number of rounds with --against; it must not depend on the measured values
WIDE = "Show all columns, including workers and CPU time per transaction."
REQUIRE = 'A requirement such as "ping p99 < 50ms" or "rate >= 30/s"; may be repeated.'
PAUSE = "Pause of each user between requests: 1s, 0.5s-2s, or exponential 1s; may be repeated."
ARRIVALS = "Send requests at this rate, such as 20/s, without waiting for responses; may be repeated."
RATE = "Also measure the strategies for a route at this rate, such as 5/s.  [default: 40 % of what it can do as it is]"
TOLERANCE = "How much worse a metric may get, such as 5%; only a significantly larger change counts."
COPY = "With --against, copy this file or folder, which git ignores, to the base; may be repeated."
ELSEWHERE = {
    "lesson": "under_siege.lesson.command",
    "trace": "under_siege.trace.command",
    "profile": "under_siege.profile.command",
}


def fault_names() -> Sequence[str]:
    from under_siege.drill.faults import FAULT_OPTIONS

    return FAULT_OPTIONS


@click.group(cls=OneLineErrors, epilog=EXAMPLES, elsewhere=ELSEWHERE)
@click.version_option(__version__, prog_name="under-siege")
def bench() -> None:
    """Which concurrency strategy should run your long task?

    Each strategy is a small server in servers/. This program starts one server after the other, puts each under
    siege, and compares throughput, health-check latency under load, CPU time and memory.
    """


@bench.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_servers(as_json: bool) -> None:
    """List all strategies."""
    from under_siege.suite.server_files import all_strategies, catalogue_as_json, catalogue_as_text

    strategies = all_strategies()
    click.echo(catalogue_as_json(strategies) if as_json else catalogue_as_text(strategies))


@bench.command()
@click.argument("app", default="app:app")
@click.option("--out", type=FILE, default=Path("suite.toml"), show_default=True, help="The file to write.")
@click.option("--python", multiple=True, help="Path of the Python of the application.  [default: its environment]")
@request_options
def init(app: str, out: Path, python: tuple[str, ...], **request: Any) -> None:
    """Write a suite file for an application in this folder.

    APP is the application as module:name, such as shop.main:app.
    """
    from under_siege.suite.suite_from_application import TargetOptions, generated_suite

    if out.exists():
        raise BadInputError(f"{str(out)!r} already exists; use --out FILE with a new file name")
    first = generated_suite(app, out, Path.cwd(), TargetOptions(pythons=python, tell=print_error, **request))
    with contextlib.suppress(OSError):  # `writable` reports the error
        out.parent.mkdir(exist_ok=True)
    write_atomically(writable(out), first.text.encode())
    python_option = f" --python {shlex.quote(first.python)}" if first.python else ""
    click.echo(f"{out} written: check its request and its ping, then run: {INVOCATION} run {out}{python_option}")


@bench.command()
@target_options
@users_option
@click.option("--pause", multiple=True, metavar="TIME", help=PAUSE)
@click.option("--arrivals", multiple=True, metavar="RATE", help=ARRIVALS)
@click.option(
    "--style",
    type=click.Choice(["waiting", "jobs"]),
    default="waiting",
    help="jobs: POST a job, then poll for its result.",
)
@click.option("--time", "time_s", type=SiegeTime(), default="auto", help="Duration of each siege; auto: as needed.")
@click.option("--rounds", type=Rounds(), default="auto", help="Rounds per case; auto: as many as the answer needs.")
@click.option("--require", "wanted", multiple=True, help=REQUIRE)
@click.option("--quick", is_flag=True, help="Run the quick profile of a suite, if it has one.")
@click.option(
    "--against", metavar="BASE", help="Compare with BASE, a git revision or the directory of another work tree."
)
@click.option("--rate", metavar="RATE", help=RATE)
@click.option("--tolerance", type=Percentage(), help=f"With --against: {TOLERANCE[0].lower()}{TOLERANCE[1:]}")
@click.option("--copy", "copied", type=FILE, multiple=True, help=COPY)
@click.option("--trace", "traced", is_flag=True, help=f"Trace every strategy at the end: see {PROGRAM} trace.")
@click.option("--profile", "profiled", is_flag=True, help=f"Profile every strategy at the end: see {PROGRAM} profile.")
@click.option("--wide", is_flag=True, help=WIDE)
@measuring_options
def run(
    servers: tuple[str, ...],
    style: str,
    time_s: float | None,
    rounds: int | None,
    wanted: tuple[str, ...],
    quick: bool,
    against: str | None,
    rate: str | None,
    tolerance: float | None,
    copied: tuple[Path, ...],
    traced: bool,
    profiled: bool,
    wide: bool,
    options: CommonOptions,
) -> None:
    """Start the servers, put each under siege, and compare them.

    TARGET is the number (3) or name (3_async_threadexecutor) of a strategy, an application in this folder
    (shop.main:app), or a suite (shop.toml, or shop.toml:SERVER). It may also be the path of a script that follows the
    server contract, or the URL of a running server. Without TARGET, all strategies are compared. --task, --users,
    --workers and --python may be repeated.

    Exit 1 if a case failed or misses a requirement; else 3 if a case is suspect or unclear, or a requirement is
    undecided; else 0. With --against, also exit 1 if a case got significantly worse.
    """
    from under_siege.judge.requirement_check import with_required
    from under_siege.measure import user_ladder
    from under_siege.measure.plan import make_plan
    from under_siege.measure.session import run_plan
    from under_siege.suite.selection import suite_of

    command = "run --trace" if traced else "run"
    moves = against is None and not wanted  # requirements are for what is deployed
    suite = suite_of(servers, options.target, quick=quick, style=style, command=command, with_strategies=moves)
    suite = with_required(suite, wanted, has_base=against is not None)
    if rate is not None:
        chosen, stream = options.target.strategies, options.target.stream
        given = {"--against": against, "--require": wanted, "--style jobs": style == "jobs", "--stream": stream}
        others = [name for name, value in given.items() if value]
        _refuse_rate_with([*(f"--strategy {each}" for each in chosen), *others], suite)
    suite, rounds = _revisions(suite, against, tolerance, copied, rounds, options)
    plan = make_plan(suite, options.axes, time_s=time_s, rounds=rounds, seed=options.seed, is_paced=True)
    after_run = _at_rate(plan, rate)
    count = (rounds or USUAL_ROUNDS) * (len(plan.cases) + len(plan.ceilings)) + (traced + profiled) * len(plan.cases)
    tracers = _tracers(traced=traced, profiled=profiled)
    decide, limits_s = _decision(plan, rounds)
    adapted = user_ladder.with_fitting_users if user_ladder.is_open(suite, plan, options.axes) else None
    measure = partial(run_plan, plan, decide=decide, limits_s=limits_s, make_tracers=tracers, adapted=adapted)
    _measure(count, measure, options, wide=wide, after_run=after_run)


def _refuse_rate_with(options: Sequence[str], suite: "Suite") -> None:
    """Raise BadInputError if --rate has nothing to measure, because of the first of these options."""
    if options and suite.route is None and suite.application is not None:
        why = "so no strategies for a route are compared, which --rate would measure"
        raise BadInputError(f"--rate with {options[0]}, {why}: remove one of them")


def _at_rate(plan: "Plan", rate: str | None) -> Callable[["ProgressListener"], Any] | None:
    """Return what measures the strategies for a route at a rate, or None if there are no strategies."""
    from under_siege.load.request import parse_rate_per_s
    from under_siege.record.case import ARRIVALS
    from under_siege.suite.what_if import AS_IS, is_what_if

    suite = plan.suite
    if suite.route is None or not any(is_what_if(target.name) for target in suite.targets):
        if rate is not None:
            raise BadInputError(
                "--rate compares strategies for a route of an application, such as --strategy processes; "
                "for other loads, use --arrivals"
            )
        return None
    if rate is not None and parse_rate_per_s(rate) is None:
        raise BadInputError(f"--rate {rate!r}: expected a rate such as 5/s or 90/min, up to 10,000/s")
    if rate is not None and suite.route.server not in {target.name for target in suite.targets}:
        raise BadInputError(f"--rate compares strategies with the application as it is: add --strategy {AS_IS}")
    if rate is not None and (len({case.load for case in plan.cases}) > 1 or plan.cases[0].get(ARRIVALS)):
        raise BadInputError(
            "--rate with several loads, or with --arrivals: use one value of each axis, and --rate alone"
        )
    from under_siege.run.at_rate import after_run  # loads scipy

    return partial(after_run, parse_rate_per_s(rate) if rate else None)


def _decision(plan: "Plan", rounds: int | None) -> tuple["Decide | None", tuple[float, float]]:
    """Return what decides about further rounds, or None if their number is fixed, and the time limits of the run."""
    from under_siege.judge import stopping_rule, worker_search
    from under_siege.measure.racing import LIMITS_S, SEARCH_LIMITS_S

    if rounds is not None:
        return None, (math.inf, math.inf)
    if plan.searched:
        return partial(worker_search.wanted, plan.cases, plan.searched), SEARCH_LIMITS_S
    return stopping_rule.wanted, LIMITS_S


def _revisions(
    suite: "Suite",
    against: str | None,
    tolerance: float | None,
    copied: tuple[Path, ...],
    rounds: int | None,
    options: CommonOptions,
) -> tuple["Suite", int | None]:
    """Return the suite with its base, if there is one, and the number of rounds."""
    from under_siege.measure.base_revision import with_base

    if against is not None:
        both = with_base(suite, against, options.axes["python"], copied)
        return replace(both, tolerance=tolerance or 0.0), rounds or REVISION_ROUNDS
    if tolerance is not None:
        raise BadInputError("--tolerance needs --against, such as --against main")
    if copied:
        raise BadInputError("--copy needs --against, such as --against main")
    return suite, rounds


def _tracers(*, traced: bool, profiled: bool) -> list[Any]:
    from under_siege.profile.profile_run import Profiler
    from under_siege.trace.trace_run import RequestTracer

    return [*([partial(RequestTracer, requests=TRACED_REQUESTS)] if traced else []), *([Profiler] if profiled else [])]


@bench.command()
@click.option(
    "--fault", "faults", type=LazyChoice(fault_names), multiple=True, help="Inject only this fault; may be repeated."
)
@click.option("--rounds", type=click.IntRange(1, 100), default=3, help="How many times to inject each fault.")
@target_options
@measuring_options
def drill(servers: tuple[str, ...], faults: tuple[str, ...], rounds: int, options: CommonOptions) -> None:
    """Inject faults, and show which servers survive them.

    Faults include killed and stopped workers, clients that disconnect, ten times the users, and, for jobs, a killed
    server. They affect only processes that this program starts. TARGET is the same as for run. Exit 1 if a
    drill failed or a fault left a server dead; else 3 if a fault could not be injected; else 0.
    """
    from under_siege.drill.drill_run import drill_plan, run_drill
    from under_siege.suite.selection import suite_of

    suite = suite_of(servers, options.target)
    plan, count = drill_plan(suite, faults, options.axes, rounds=rounds, seed=options.seed)
    _measure(count, partial(run_drill, plan, faults), options)


@bench.command()
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
    _measure(count, partial(run_capacity, plan, goals, time_s), options)


def _measure(
    count: int,
    measure: Callable[..., Any],
    options: CommonOptions,
    *,
    wide: bool = False,
    after_run: Callable[["ProgressListener"], Any] | None = None,
) -> NoReturn:
    """Measure, show the result, and exit with the exit code of the result.

    Args:
        count: the approximate number of measurements, for the progress bar.
        after_run: returns what to measure after the last round.
    """
    from under_siege.show.progress_bar import ProgressBar

    out, page = options.files()
    with ProgressBar(count, quiet=options.quiet) as progress:
        # This import is slow, so it runs in parallel with the preparations.
        load = partial(import_module, "under_siege.report")
        more = {"afterwards": after_run(progress)} if after_run else {}
        result, stopped_by, is_saved = measure(out, progress, command_line(), meanwhile=load, **more)
    from under_siege.report import show_measured

    exit_with(show_measured(result, out if is_saved else None, page, wide=wide), stopped_by)


@bench.command()
@click.argument("result", type=FILE)
@click.option(
    "--format", "output_format", type=click.Choice([*formats.FORMATS, *PARTS]), default="table", help="Output format."
)
@click.option("--picture", type=LazyChoice(picture_names), metavar="NAME", help=ONE_PICTURE)
@click.option("--aspect", help="Aspect ratio of a chart for a slide, with large text: 16:9, 4:3 or 1:1.")
@click.option("--across", metavar="AXIS", help="Print a column for each value of AXIS, and the differences.")
@click.option("--out", type=FILE, help="Write to this file instead of the terminal.")
@click.option("--html", "page", type=FILE, help="Write the HTML page to this file, like --format html --out FILE.")
@click.option("--require", "wanted", multiple=True, help=f"{REQUIRE} Exit 1 if it is missed, 3 if it is undecided.")
@click.option("--wide", is_flag=True, help=WIDE)
@click.option("--uncorrected", is_flag=True, help="Don't adjust rates for CPU speed or lost CPU time.")
def report(
    result: Path,
    output_format: str,
    picture: str | None,
    aspect: str | None,
    across: str | None,
    out: Path | None,
    page: Path | None,
    wanted: tuple[str, ...],
    wide: bool,
    uncorrected: bool,
) -> None:
    """Show the result of an earlier run."""
    from under_siege.judge.ranking import summarize
    from under_siege.judge.requirement_check import exit_code_of, require
    from under_siege.record.result import load
    from under_siege.report import part_of, view_of
    from under_siege.run.matrix import across_view
    from under_siege.show.chart_file import write_chart

    if page is not None:
        if out is not None or picture is not None or across is not None:
            raise BadInputError("--html can't be used with --out, --picture or --across: omit these, or use --format")
        output_format, out = "html", page
    if aspect is not None and picture is None:
        raise BadInputError("--aspect without a chart: expected --picture NAME, too")
    gc.disable()  # a result may have millions of numbers, which slow down garbage collection
    measured = load(result)
    with one_line_read_errors(result):
        comparison = summarize(measured, corrected=not uncorrected)
        judged = require(comparison, wanted) if wanted else []
        if picture is not None:
            file = writable(out or Path(f"{picture}.svg"))
            write_chart(measured, view_of(measured, comparison), picture, file, aspect)
        elif across is not None:
            _show(across_view(comparison, across))
        else:
            view = part_of(measured, output_format) if output_format in PARTS else view_of(measured, comparison)
            _show(view, output_format, writable(out) if out else None, wide=wide)
    sys.exit(exit_code_of(judged))


def _show(view: "View", output_format: str = "table", out: Path | None = None, *, wide: bool = False) -> None:
    """Print the view in an output format, or write it to a file."""
    from under_siege.show.formats.table import show
    from under_siege.show.view import with_all_columns

    view = with_all_columns(view) if wide else view
    text_format = "table" if output_format in PARTS else output_format
    if out is not None:
        write_atomically(out, f"{formats.rendered(view, text_format)}\n".encode())
    elif text_format == "table":
        show(view)
    else:
        print(formats.rendered(view, text_format))  # noqa: T201


@bench.command(name="try")
@click.argument("tasks", metavar="[TASK]...", nargs=-1)
@click.option("--limit", "limit_s", type=Duration(), default="30s", help="Stop the first run of TASK after this time.")
@click.option("--python", default=sys.executable, show_default="this one", help="Path of the Python that runs TASK.")
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


@bench.command()
@click.argument("base", type=FILE)
@click.argument("new", type=FILE)
@click.option("--format", "output_format", type=click.Choice(COMPARE_FORMATS), default="table", help="Output format.")
@click.option(
    "--require", "wanted", multiple=True, help='A requirement such as "rate >= 0.97 of base"; may be repeated.'
)
@click.option("--tolerance", type=Percentage(), default="0%", help=TOLERANCE)
@click.option("--anyway", is_flag=True, help="Compare even if the machines differ.")
def compare(base: Path, new: Path, output_format: str, wanted: tuple[str, ...], tolerance: float, anyway: bool) -> None:
    """Show what changed between two results, BASE and NEW.

    Exit 1 if a case failed, is missing, got significantly worse, or misses a requirement; else 3 if a case is suspect
    or unclear, or a comparison or requirement is undecided; else 0.
    """
    from under_siege.compare.diff import check_comparable, compare_results
    from under_siege.compare.view import view
    from under_siege.judge.ranking import summarize
    from under_siege.judge.requirement_check import require
    from under_siege.record.result import load

    gc.disable()  # as in `report`
    before, after = load(base), load(new)
    check_comparable(before, after, anyway=anyway)
    with one_line_read_errors(base, new):
        if wanted:
            require(summarize(after), wanted, has_base=True)
        changes = view(compare_results(before, after, tolerance))
        _show(changes, output_format)
    sys.exit(changes.exit_code)


@bench.command()
def doctor() -> None:
    """Check whether this machine is ready for a run.

    Each problem is printed with a remedy. Exit 1 if there is a problem.
    """
    from under_siege.host.readiness import examine

    findings = examine()
    for finding in findings:
        click.echo(f"{finding.what}; {finding.remedy}")
    if not findings:
        click.echo("No problems found.")
    sys.exit(1 if findings else 0)
