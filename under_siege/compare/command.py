"""Provide the command `bench.py compare`: show what changed between two results."""

import gc
import sys
from pathlib import Path

import click

from under_siege.cli_options import FILE, TOLERANCE, Percentage, one_line_read_errors

FORMATS = ["table", "markdown", "json"]


@click.command()
@click.argument("base", type=FILE)
@click.argument("new", type=FILE)
@click.option("--format", "output_format", type=click.Choice(FORMATS), default="table", help="Output format.")
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
    from under_siege.show.output import print_or_write

    gc.disable()  # as in `report`
    before, after = load(base), load(new)
    check_comparable(before, after, anyway=anyway)
    with one_line_read_errors(base, new):
        if wanted:
            require(summarize(after), wanted, has_base=True)
        changes = view(compare_results(before, after, tolerance))
        print_or_write(changes, output_format)
    sys.exit(changes.exit_code)
