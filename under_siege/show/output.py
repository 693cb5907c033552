"""Print views, and write them to files."""

import sys
from collections.abc import Sequence
from pathlib import Path

from under_siege.record.files import write_atomically
from under_siege.show import formats
from under_siege.show.formats.table import show
from under_siege.show.view import View, with_all_columns


def print_or_write(view: View, output_format: str = "table", out: Path | None = None, *, wide: bool = False) -> None:
    """Print the view in an output format, or write it to a file."""
    view = with_all_columns(view) if wide else view
    if output_format == "html":
        _say_if_undrawn(view)
    if out is not None:
        write_atomically(out, f"{formats.rendered(view, output_format)}\n".encode())
    elif output_format == "table":
        show(view)
    else:
        print(formats.rendered(view, output_format))  # noqa: T201


def show_measured(views: Sequence[View], out: Path | None, page: Path | None, *, wide: bool = False) -> None:
    """Print views on stdout and the names of the written files on stderr, and write the page of the first view.

    Args:
        out: the file with the raw values, or None if they could not be saved.
        page: the file for the HTML page, or None.
        wide: whether to show all columns of the first view.
    """
    main, *others = views
    try:
        for view in (with_all_columns(main) if wide else main, *others):
            show(view)
    finally:  # even if writing to stdout fails, for example because the disk is full
        print("Raw values could not be saved." if out is None else f"Raw values: {out}", file=sys.stderr)  # noqa: T201
    if page is not None:
        _say_if_undrawn(main)
        write_atomically(page, formats.rendered(main, "html").encode())
        print(f"Page: {page}", file=sys.stderr)  # noqa: T201


def _say_if_undrawn(view: View) -> None:
    if why := view.why_undrawn():
        print(f"The page has no charts: {why}", file=sys.stderr)  # noqa: T201
