"""Render a result as text."""

from under_siege.judge.ranking import Comparison
from under_siege.record.result import Result
from under_siege.report import PARTS, part_of, view_of
from under_siege.show.formats import rendered


def formatted(result: Result, output_format: str, comparison: Comparison | None = None) -> str:
    """Return the result in an output format, or its `timeline` or `profile` as a table."""
    if output_format in PARTS:
        return rendered(part_of(result, output_format), "table")
    return rendered(view_of(result, comparison), output_format)
