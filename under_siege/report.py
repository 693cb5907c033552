"""Provide the command `bench.py report`: show an earlier result with the view of the command that measured it.

Most results need only one of the views, and some are slow to import.
"""

import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from common.errors import BadInputError
from under_siege.cli_options import (
    FILE,
    ONE_PICTURE,
    REQUIRE,
    WIDE,
    Documented,
    LazyChoice,
    one_line_read_errors,
    out_option,
    picture_names,
    writable,
)
from under_siege.show.formats import FORMATS

if TYPE_CHECKING:
    from under_siege.judge.ranking import Comparison
    from under_siege.record.result import Result
    from under_siege.show.view import View

ACROSS_FORMATS = ("table", "markdown")
PARTS = ["timeline", "profile"]  # formats that show a part of a result, as a table does


ACROSS = "One column for each value of this option of the run, such as users, and the differences."
EXAMPLES = {
    "report result.json --format markdown": "for an issue",
    "report result.json --picture pings -o pings.svg": "one chart",
}


@click.command(cls=Documented, examples=EXAMPLES)
@click.argument("result", type=FILE)
@click.option(
    "--format",
    "output_format",
    metavar="FORMAT",
    type=click.Choice([*FORMATS, *PARTS]),
    default="table",
    help=f"{', '.join([*FORMATS, *PARTS])}.",
)
@click.option("--processes", is_flag=True, help="What each process of a server did, instead of the comparison.")
@click.option("--picture", type=LazyChoice(picture_names), metavar="NAME", help=ONE_PICTURE)
@click.option(
    "--aspect", metavar="RATIO", help="Aspect ratio of a chart for a slide, with large text: 16:9, 4:3 or 1:1."
)
@click.option("--across", metavar="OPTION", help=ACROSS)
@out_option("Report, or the chart of --picture: the file to write, instead of the terminal.")
@click.option("--html", "page", metavar="FILE", type=FILE, help="Report as a page, like --format html --out FILE.")
@click.option("--require", "wanted", metavar="LIMIT", multiple=True, help=REQUIRE)
@click.option("--wide", is_flag=True, help=WIDE)
@click.option("--uncorrected", is_flag=True, help="Don't adjust rates for CPU speed or lost CPU time.")
def report(
    result: Path,
    output_format: str,
    processes: bool,
    picture: str | None,
    aspect: str | None,
    across: str | None,
    out: Path | None,
    page: Path | None,
    wanted: tuple[str, ...],
    wide: bool,
    uncorrected: bool,
) -> None:
    """Show the result of an earlier run.

    With --require, exit 1 if a requirement is missed, or 3 if one is undecided.
    """
    from under_siege.judge.ranking import summarize
    from under_siege.judge.requirement_check import exit_code_of, require
    from under_siege.record.result import load
    from under_siege.run.matrix import across_view
    from under_siege.run.processes import view as process_view
    from under_siege.show.chart_file import write_chart
    from under_siege.show.output import print_or_write

    if page is not None:
        if out is not None or picture is not None or across is not None:
            raise BadInputError("--html can't be used with --out, --picture or --across: omit these, or use --format")
        output_format, out = "html", page
    if across is not None and (picture is not None or output_format not in ACROSS_FORMATS):
        wrong = "--picture" if picture is not None else f"--format {output_format}"
        raise BadInputError(f"--across with {wrong}: expected a table, as --format {' or '.join(ACROSS_FORMATS)}")
    if processes and (across is not None or output_format in PARTS):
        wrong = "--across" if across is not None else f"--format {output_format}"
        raise BadInputError(f"--processes can't be used with {wrong}: use one of them")
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
            print_or_write(across_view(comparison, across), output_format, writable(out) if out else None)
        else:
            is_part = output_format in PARTS
            if processes:
                view = process_view(comparison)
            else:
                view = part_of(measured, output_format) if is_part else view_of(measured, comparison)
            print_or_write(view, "table" if is_part else output_format, writable(out) if out else None, wide=wide)
    sys.exit(exit_code_of(judged))


def view_of(result: "Result", comparison: "Comparison | None" = None) -> "View":
    """Return the view of the command that measured the result.

    Args:
        comparison: the summary of the result, if it was already computed.
    """
    if result.incidents:
        from under_siege.drill import view as drill

        return drill.view(result)
    if result.steps:
        from under_siege.capacity import view as capacity

        return capacity.view(result)
    if not result.records and (result.traces or result.profiles):
        return part_of(result, "timeline" if result.traces else "profile")
    from under_siege.judge.ranking import summarize
    from under_siege.run import view as run

    return run.view(comparison or summarize(result))


def part_of(result: "Result", part: str) -> "View":
    """Return the view of the part of a result with the name `timeline` or `profile`."""
    if part == "timeline":
        from under_siege.trace import view as trace

        return trace.view(result)
    from under_siege.profile import view as profile

    return profile.view(result)
