"""Provide the command `bench.py run`: put servers under siege, and compare them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from common.errors import BadInputError
from under_siege.cli_options import (
    FILE,
    REQUIRE,
    TOLERANCE,
    TRACED_REQUESTS,
    WIDE,
    CommonOptions,
    Documented,
    Percentage,
    Rounds,
    SiegeTime,
    measure_and_show,
    measuring_options,
    target_options,
    time_option,
    users_option,
)
from under_siege.paths import PROGRAM

if TYPE_CHECKING:
    from under_siege.measure.plan import Plan
    from under_siege.measure.racing import Racing
    from under_siege.measure.session import Session
    from under_siege.record.result import Result
    from under_siege.show.view import View
    from under_siege.suite.suite import Suite

USUAL_ROUNDS = 3  # typical number of rounds with --rounds auto, for the progress bar
REVISION_ROUNDS = 8  # default number of rounds with --against; it must not depend on the measured values
PAUSE = "Pause of each user between requests: 1s, 0.5s-2s, or exponential 1s."
ARRIVALS = "Send requests at this rate, such as 20/s, without waiting for responses."
RATE = "Also measure the strategies for a route at this rate, such as 5/s.  [default: 40 % of what it can do as it is]"
COPY = "With --against, copy this file or folder, which git ignores, to the base."
EXAMPLES = {
    "run app:app --path /report": "where should its work run?",
    "run app:app --cpus 0.5 --workers auto": "how many workers?",
}


@click.command(cls=Documented, examples=EXAMPLES)
@target_options
@users_option
@click.option("--pause", multiple=True, metavar="TIME", help=PAUSE)
@click.option("--arrivals", multiple=True, metavar="RATE", help=ARRIVALS)
@click.option("--jobs", "style", flag_value="jobs", help="POST a job, then poll for its result.")
@click.option("--style", type=click.Choice(["waiting", "jobs"]), default="waiting", hidden=True)  # the old --jobs
@time_option(SiegeTime(), "auto", "Duration of each siege, such as 10s; auto: as needed.")
@click.option(
    "--rounds", metavar="N", type=Rounds(), default="auto", help="How often to measure each server; auto: as needed."
)
@click.option("--require", "wanted", metavar="LIMIT", multiple=True, help=REQUIRE)
@click.option("--quick", is_flag=True, help="Run the quick version of a suite, if it has one.")
@click.option(
    "--against", metavar="BASE", help="Compare with BASE: a git revision, or the directory of another work tree."
)
@click.option("--rate", metavar="RATE", help=RATE)
@click.option(
    "--tolerance", metavar="PERCENT", type=Percentage(), help=f"With --against: {TOLERANCE[0].lower()}{TOLERANCE[1:]}"
)
@click.option("--copy", "copied", metavar="PATH", type=FILE, multiple=True, help=COPY)
@click.option("--trace", "traced", is_flag=True, help=f"Add a timeline of each strategy: see {PROGRAM} trace.")
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
    wide: bool,
    options: CommonOptions,
) -> None:
    """Start servers, put each under siege, and compare them.

    TARGET is the number (3) or name of a strategy, your application (app:app), a suite (suite.toml or
    suite.toml:SERVER), a script with the same routes and options as those in servers/, or the URL of a running server.
    Without TARGET, all strategies are compared.

    Exit 1 if a server failed, misses a requirement or, with --against, got significantly worse; else 3 if a result is
    suspect, unclear or undecided; else 0.
    """
    from under_siege.judge.requirement_check import with_required
    from under_siege.measure import user_ladder
    from under_siege.measure.plan import make_plan
    from under_siege.measure.rounds import run_plan
    from under_siege.suite.selection import suite_of
    from under_siege.trace.trace_run import RequestTracer

    command = "run --trace" if traced else "run"
    moves = against is None and not wanted  # requirements are for what is deployed
    suite = suite_of(servers, options.target, quick=quick, style=style, command=command, with_strategies=moves)
    suite = with_required(suite, wanted, has_base=against is not None)
    if rate is not None:
        chosen, stream = options.target.strategies, options.target.stream
        given = {"--against": against, "--require": wanted, "--jobs": style == "jobs", "--stream": stream}
        others = [name for name, value in given.items() if value]
        _refuse_rate_with([*(f"--strategy {each}" for each in chosen), *others], suite)
    suite, rounds = _revisions(suite, against, tolerance, copied, rounds, options)
    plan = make_plan(suite, options.axes, time_s=time_s, rounds=rounds, seed=options.seed, is_paced=True)
    after_run = _at_rate(plan, rate)
    count = (rounds or USUAL_ROUNDS) * (len(plan.cases) + len(plan.ceilings)) + traced * len(plan.cases)
    tracers = [partial(RequestTracer, requests=TRACED_REQUESTS)] if traced else []
    measure = partial(
        run_plan,
        plan,
        racing=_racing(plan) if rounds is None else None,
        make_tracers=tracers,
        adapted=user_ladder.with_fitting_users if user_ladder.is_open(suite, plan, options.axes) else None,
        afterwards=after_run,
    )
    measure_and_show(count, measure, options, _views, wide=wide)


def _refuse_rate_with(options: Sequence[str], suite: "Suite") -> None:
    """Raise BadInputError if --rate has nothing to measure, because of the first of these options."""
    if options and suite.route is None and suite.application is not None:
        why = "so no strategies for a route are compared, which --rate would measure"
        raise BadInputError(f"--rate with {options[0]}, {why}: remove one of them")


def _at_rate(plan: "Plan", rate: str | None) -> Callable[["Session"], Awaitable[None]] | None:
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

    return after_run(parse_rate_per_s(rate) if rate else None)


def _racing(plan: "Plan") -> "Racing":
    """Return what decides about further rounds, and the time limits of the run."""
    from under_siege.judge import stopping_rule, worker_search
    from under_siege.measure.racing import LIMITS_S, SEARCH_LIMITS_S, Racing

    if plan.searched:
        return Racing(partial(worker_search.wanted, plan.cases, plan.searched), SEARCH_LIMITS_S)
    return Racing(stopping_rule.wanted, LIMITS_S)


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


def _views() -> Callable[["Result"], Sequence["View"]]:
    from under_siege.run.view import views  # loads numpy and scipy

    return views
