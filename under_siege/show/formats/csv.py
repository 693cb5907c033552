"""Render the rows of a view as CSV."""

import csv
import io

from under_siege.show.view import CsvValue, View


def rendered(view: View) -> str:
    """Return the rows as CSV, with text escaped so that spreadsheets don't interpret it as a formula."""
    headings, rows = view.csv
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows(map(_harmless, row) for row in rows)
    return page.getvalue().rstrip("\n")


def _harmless(value: CsvValue) -> CsvValue:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
