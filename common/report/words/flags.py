"""The flags of a comparison: each reason for a verdict, with the cases it applies to."""

from collections.abc import Iterator, Sequence

from common.report.judging.rules import verdict_of
from common.report.judging.summary import Summary
from common.report.words.naming import cases_of, full_name


def flags(summaries: Sequence[Summary], cases: Sequence[Summary]) -> Iterator[tuple[str, list[str], str]]:
    """Yield the verdict of each reason, the names of its cases, and its message."""
    named = cases_of(cases)
    about: dict[tuple[str, str], list[str]] = {}
    for summary in summaries:
        for reason in summary.reasons:
            about.setdefault((verdict_of([reason]), reason.message), []).append(full_name(summary.case, named))
    for (verdict, message), names in about.items():
        yield verdict, names, message
