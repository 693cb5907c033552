"""Choose the view of a result, and show it: each command that measures has its own view.

Most results need only one of the views, and some are slow to import.
"""

import sys
from pathlib import Path

from under_siege.judge.ranking import Comparison, summarize
from under_siege.record.files import write_atomically
from under_siege.record.result import Result
from under_siege.show.formats import FORMATS, rendered
from under_siege.show.formats.table import show
from under_siege.show.view import View, with_all_columns


def view_of(result: Result, comparison: Comparison | None = None) -> View:
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
    comparison = comparison or summarize(result)
    if result.suite is not None and result.suite.against:
        from under_siege.compare import view as compare

        return compare.view_of_revisions(comparison)
    from under_siege.run import view as run

    return run.view(comparison)


def part_of(result: Result, part: str) -> View:
    """Return the view of the part of a result with the name `timeline` or `profile`."""
    if part == "timeline":
        from under_siege.trace import view as trace

        return trace.view(result)
    from under_siege.profile import view as profile

    return profile.view(result)


def formatted(result: Result, output_format: str, comparison: Comparison | None = None) -> str:
    """Return the result in one of the FORMATS, or its `timeline` or `profile` as text."""
    if output_format in FORMATS:
        return rendered(view_of(result, comparison), output_format)
    return rendered(part_of(result, output_format), "table")


def show_measured(result: Result, out: Path | None, page: Path | None, *, wide: bool = False) -> int:
    """Print a result on stdout and the names of the written files on stderr, and write the page; return the exit code.

    Args:
        out: the file with the raw values, or None if they could not be saved.
        page: the file for the HTML page, or None.
        wide: whether to show all columns.
    """
    view = view_of(result)
    if not (result.records or result.incidents or result.steps):
        return view.exit_code  # stopped before anything was measured
    try:
        show(with_all_columns(view) if wide else view)
        for is_measured, part in ((result.traces, "timeline"), (result.profiles, "profile")):
            if is_measured:
                show(part_of(result, part))
    finally:  # even if writing to stdout fails, for example because the disk is full
        print("Raw values could not be saved." if out is None else f"Raw values: {out}", file=sys.stderr)  # noqa: T201
    if page is not None:
        write_atomically(page, rendered(view, "html").encode())
        print(f"Page: {page}", file=sys.stderr)  # noqa: T201
    return view.exit_code
