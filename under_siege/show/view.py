"""Define a view: all that one command has to show, independent of the output format."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from common.errors import BadInputError

if TYPE_CHECKING:  # slow imports, because of the charts
    from rich.console import RenderableType

    from under_siege.show.charts import Chart

CsvValue = str | float | None


def finite(value: float | None) -> float | None:
    """Return the value, or None if it is infinite, because JSON has no infinity."""
    return None if value is None or math.isinf(value) else value


STAR = "★"  # marks cells with Tone.BEST; in texts, each output format replaces it with its own mark


class Tone(StrEnum):
    """What a text says about its subject; each output format has its own style for it."""

    PLAIN = ""
    BEST = "best"  # not significantly worse than the best
    GOOD = "good"
    BAD = "bad"
    WORST = "worst"  # bad, and to be seen first
    WARNING = "warning"
    QUIET = "quiet"


class Medium(StrEnum):
    """Where a table is shown; each output format with tables belongs to one medium."""

    TERMINAL = "terminal"
    DOCUMENT = "document"  # such as Markdown
    PAGE = "page"


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell."""

    text: str = ""
    tone: Tone = Tone.PLAIN
    below: str = ""  # a second text, such as the file name of a server, or the second figure of a cell
    in_terminal: str | None = None  # the lines in a terminal, if they differ from `text` and `below`
    title: str = ""  # a name in plain words, which a page shows above the text


@dataclass(frozen=True, slots=True)
class Column:
    """A column of texts, which are left-aligned, or of figures."""

    name: str
    in_terminal: str = ""  # if it begins with a line break, the first line of the previous heading applies, too
    is_text: bool = False
    is_wide: bool = False  # whether a terminal shows the column only with --wide


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table."""

    cells: Sequence[Cell]
    tone: Tone = Tone.PLAIN
    verdict: str = ""  # such as `suspect`; documents show it after the name of the row
    causes: str = ""  # of the verdict, in a few words
    reasons: Sequence[str] = ()  # a page shows them below the row
    is_main: bool = False  # whether the row answers the question of the view
    media: Collection[Medium] = tuple(Medium)


@dataclass(frozen=True, slots=True)
class Table:
    """A table. On a narrow terminal, it is split into several tables, so that no figure is cut off."""

    name: str  # identifies the table on a page: `comparison`, `requirements`
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    caption: Sequence[str] = ()  # lines that explain this table, in addition to the footnotes of the view
    gap: int = 1  # distance between columns in a terminal
    is_spaced: bool = False  # whether a blank line follows each row in a terminal
    header: int = 0  # index of the column that names the rows
    media: Collection[Medium] = tuple(Medium)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of the conclusion: a text, labelled facts, and remarks."""

    text: str
    facts: Sequence[tuple[str, str]] = ()  # label and text
    remarks: Sequence[str] = ()
    code: str = ""  # lines of source code
    is_diff: bool = False  # whether the code is a diff, which programs refuse if it is indented or wrapped
    is_main: bool = False  # whether it answers the question of the view
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Note:
    """A note below the tables: a flag, a failure or a remark."""

    label: str  # `note`, or a verdict
    subject: str
    text: str
    tone: Tone = Tone.PLAIN  # pages list notes with a tone at their end, because rows show them, too
    title: str = ""  # the subject in plain words, for pages


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its texts, for pages, files and slides."""

    name: str  # file name
    title: str  # title on the page
    how: str  # how to read the chart
    chart: Callable[[], Chart]
    alternative: str  # text alternative
    on_page: bool = True  # whether the page shows the chart; every chart can be written to a file
    headline: str = ""  # the finding; a second line may list names
    conditions: str = ""  # conditions of the measurement
    on_slide: Callable[[], Chart] | None = None  # a chart with fewer marks, or None to show the same chart
    section: str = ""  # heading of the section of the page
    in_terminal: RenderableType | None = None  # the chart in block characters, or None if a terminal lacks it

    def alone(self, aspect: str | None = None) -> str:
        """Return the chart with its headline and conditions as SVG, for a file or a slide."""
        from under_siege.show.charts import for_file

        title, _, names = (self.headline or self.title).partition("\n")
        chart = self.on_slide if aspect is not None and self.on_slide is not None else self.chart
        return for_file(chart(), title, [names, self.conditions], aspect)


@dataclass(frozen=True, slots=True)
class View:
    """All that one command has to show."""

    title: str  # the question that the view answers
    headline: Sequence[Paragraph] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[Note] = ()
    footnotes: Sequence[str] = ()  # how to read the tables, and the conditions of the measurement
    figures: Sequence[Figure] = ()
    data: Mapping[str, Any] | None = None  # for JSON
    csv: tuple[Sequence[str], Iterable[Sequence[CsvValue]]] = ((), ())  # headings and rows
    facts: Sequence[tuple[str, str]] = ()  # how and where the figures were measured
    limits: Sequence[str] = ()  # what the figures do not show
    made_at: str = ""
    parts: Sequence[View] = ()  # such as the steps of the lesson, below everything else
    exit_code: int = 0

    def why_undrawn(self) -> str:
        """Return why the charts can't be drawn; an empty string if they can, or if there are none."""
        from under_siege.show.charts import renderer

        try:
            if self.figures or any(part.why_undrawn() for part in self.parts):
                renderer()
        except BadInputError as error:
            return str(error)
        return ""

    def tables_in(self, medium: Medium) -> list[Table]:
        """Return the tables that the medium shows, with the rows that it shows."""
        shown = [
            replace(table, rows=[row for row in table.rows if medium in row.media])
            for table in self.tables
            if medium in table.media
        ]
        return [table for table in shown if table.rows]


def with_all_columns(view: View) -> View:
    """Return the view with all columns, including those that a terminal shows only with --wide."""
    tables = [
        replace(table, columns=[replace(column, is_wide=False) for column in table.columns]) for table in view.tables
    ]
    return replace(view, tables=tables)
