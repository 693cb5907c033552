"""Provide the command `bench.py compare`: show what changed between two results."""

import gc
import sys
from pathlib import Path

import click

from under_siege.cli_options import FILE, TOLERANCE, Documented, Percentage, one_line_read_errors

REQUIRE = 'Requirement, such as "rate >= 0.97 of base".'
FORMATS = ["table", "markdown", "json"]


EXAMPLES = {
    "compare before.json after.json": "what changed?",
    "compare before.json after.json --tolerance 5%": "permit small losses",
}


@click.command(cls=Documented, examples=EXAMPLES)
@click.argument("base", type=FILE)
@click.argument("new", type=FILE)
@click.option("--format", "output_format", type=click.Choice(FORMATS), default="table", help="Output format.")
@click.option("--require", "wanted", metavar="LIMIT", multiple=True, help=REQUIRE)
@click.option("--tolerance", metavar="PERCENT", type=Percentage(), default="0%", help=TOLERANCE)
@click.option("--force", is_flag=True, help="Compare even if the machines differ.")
def compare(base: Path, new: Path, output_format: str, wanted: tuple[str, ...], tolerance: float, force: bool) -> None:
    """Show what changed between two results, BASE and NEW.

    Exit 1 if a server failed, is missing, got significantly worse, or misses a requirement; else 3 if a result is
    suspect, unclear or undecided; else 0.
    """
    from under_siege.compare.diff import check_comparable, compare_results
    from under_siege.compare.view import view
    from under_siege.judge.ranking import summarize
    from under_siege.judge.requirement_check import require
    from under_siege.record.result import load
    from under_siege.show.output import print_or_write

    gc.disable()  # as in `report`
    before, after = load(base), load(new)
    check_comparable(before, after, force=force)
    with one_line_read_errors(base, new):
        if wanted:
            require(summarize(after), wanted, has_base=True)
        changes = view(compare_results(before, after, tolerance))
        print_or_write(changes, output_format)
    sys.exit(changes.exit_code)
