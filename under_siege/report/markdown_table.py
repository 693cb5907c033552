"""The comparison as Markdown, for a comment on a pull request."""

import re
from collections.abc import Iterator, Sequence

from under_siege.analysis.report_data import Comparison, summarize
from under_siege.analysis.summary import Summary
from under_siege.analysis.threshold_check import MET, Judged, judged
from under_siege.checks.verdict import FAILED, OK
from under_siege.model.record import Result
from under_siege.report.columns import columns_for, figures
from under_siege.report.conclusion import conclusion
from under_siege.report.footnote import footnote
from under_siege.report.labels import at, cases_of, columned
from under_siege.report.notes import flags, notes
from under_siege.report.sweep_text import in_sentences
from under_siege.report.threshold_text import HEADINGS, in_short, lines


def as_markdown(result: Result, *, corrected: bool = True) -> str:
    """What the comparison says, its figures, what is wrong with them, and how it was made."""
    comparison = summarize(result, corrected=corrected)
    if not comparison.cases and not comparison.ceilings:
        return "Nothing was measured."
    parts = [
        *(plain(paragraph) for paragraph in (*conclusion(comparison), *in_sentences(comparison))),
        "\n".join(_table(comparison)),
        required_as_markdown(judged(result, comparison)),
        "\n".join([*_flags(comparison), *_notes(result, comparison)]),
        "<br>".join(
            f"<sub>{plain(line)}</sub>"
            for line in footnote(result, comparison).replace("* not", "bold: not").splitlines()
        ),
    ]
    return "\n\n".join(part for part in parts if part)


def _table(comparison: Comparison) -> Iterator[str]:
    shown = [one for one in (*comparison.ceilings, *comparison.cases) if one.verdict != FAILED]
    if not shown:
        return
    differing = columned(cases_of(comparison.cases))
    columns = columns_for(shown)
    yield row([comparison.noun, *differing, *(column.name for column in columns)])
    yield row(["---"] * (1 + len(differing)) + ["---:"] * len(columns))
    for summary in shown:
        cells = figures(summary, columns)
        texts = [f"**{plain(cell.text)}**" if cell.best else plain(cell.text) for cell in cells]
        yield row([*_names(summary, differing), *texts])


def _names(summary: Summary, differing: Sequence[str]) -> list[str]:
    flag = "" if summary.verdict == OK else f" ({summary.verdict})"
    return [plain(summary.server) + flag, *(plain(str(value or "")) for value in at(summary.case, differing))]


def _flags(comparison: Comparison) -> Iterator[str]:
    for verdict, names, message in flags([*comparison.ceilings, *comparison.cases], comparison.cases):
        yield f"- **{verdict}** {plain(', '.join(names))}: {plain(message)}"


def _notes(result: Result, comparison: Comparison) -> Iterator[str]:
    for server, note in notes(result, comparison):
        yield f"- note: {plain(server)}: {plain(note)}"


def required_as_markdown(found: Sequence[Judged]) -> str:
    """A table, empty where nothing was required."""
    if not found:
        return ""
    rows = [
        [f"`{line.requirement}`", _marked(line.outcome), plain(line.name), plain(line.measured)]
        for line in lines(found)
    ]
    return "\n".join([in_short(found), "", row(HEADINGS), row(["---"] * len(HEADINGS)), *map(row, rows)])


def _marked(outcome: str) -> str:
    return outcome if outcome == MET else f"**{outcome}**"


def row(cells: Sequence[str]) -> str:
    """A row of a table, of cells that are plain already."""
    return f"| {' | '.join(cells)} |"


def plain(text: str) -> str:
    """The text as it is, whatever Markdown or HTML would make of it."""
    one_line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|*\[\]`~]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", one_line)
