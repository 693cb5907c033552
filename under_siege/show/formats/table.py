"""Render a view for a terminal, or as plain text."""

import io
import itertools
from collections.abc import Iterable, Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from under_siege.show.view import STAR, Cell, Column, Medium, Note, Paragraph, Row, Table, Tone, View

WIDTH = 136  # width in characters if the output is not a terminal
UNLIMITED = 10_000  # width of a terminal that never wraps lines
STYLES = {
    Tone.PLAIN: "",
    Tone.BEST: "bold green",
    Tone.GOOD: "green",
    Tone.BAD: "red",
    Tone.WORST: "bold red",
    Tone.WARNING: "yellow",
    Tone.QUIET: "dim",
}


def rendered(view: View) -> str:
    """Return the view as plain text."""
    return _plain(renderable(view))


def show(view: View) -> None:
    """Print the view in colour and at the terminal's width, or as plain text if stdout is not a terminal."""
    show_renderable(renderable(view))


def show_renderable(shown: RenderableType) -> None:
    console = Console()
    if console.is_terminal:
        console.print(shown, crop=False)
    else:
        print(_plain(shown))  # noqa: T201


def _plain(shown: RenderableType) -> str:
    output = io.StringIO()
    Console(file=output, width=WIDTH, color_system=None).print(shown, crop=False)
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines())


def renderable(view: View) -> RenderableType:
    """Return the view for a rich console."""
    return Group(*_separated(_blocks(view)))


def _separated(blocks: Iterable[RenderableType]) -> Iterator[RenderableType]:
    for index, block in enumerate(blocks):
        yield from ([Text()] if index else [])
        yield block


def _blocks(view: View) -> Iterator[RenderableType]:
    # Answers to the same question, such as one for each number of users, are not separated.
    for is_main, paragraphs in itertools.groupby(view.headline, key=lambda paragraph: paragraph.is_main):
        texts = list(map(_paragraph, paragraphs))
        yield from [Group(*texts)] if is_main else texts
    for table in view.tables_in(Medium.TERMINAL):
        yield Group(_Grid(table), *(Text(line, STYLES[Tone.QUIET]) for line in _starred(table.caption)))
    yield from (figure.in_terminal for figure in view.figures if figure.in_terminal is not None)
    for _, notes in itertools.groupby(view.notes, key=lambda note: bool(note.tone)):
        yield _notes(notes)
    if view.footnotes:
        yield Text("\n".join(_starred(view.footnotes)), STYLES[Tone.QUIET])
    for part in view.parts:
        yield Text(part.title, "bold")
        yield renderable(part)


def _starred(lines: Iterable[str]) -> Iterator[str]:
    yield from (line.replace(STAR, "*") for line in lines)


def _paragraph(paragraph: Paragraph) -> RenderableType:
    style = STYLES[paragraph.tone]
    parts: list[RenderableType] = [Text(paragraph.text, style)] if paragraph.text else []
    if paragraph.facts:
        facts = RichTable.grid(padding=(0, 2, 0, 0))
        for label, text in paragraph.facts:
            facts.add_row(Text(label, no_wrap=True), Text(text))
        parts.append(Padding(facts, (0, 0, 0, 2), style=style, expand=False))
    if paragraph.is_diff:
        parts.append(_Verbatim(paragraph.code))
    elif paragraph.code:
        parts.append(Padding(Text(paragraph.code), (0, 0, 0, 4), style=style, expand=False))
    if paragraph.remarks:
        parts.append(Text("\n".join(paragraph.remarks), style))
    return Group(*_separated(iter(parts)))


def _notes(notes: Iterable[Note]) -> RichTable:
    table = RichTable.grid(padding=(0, 1, 0, 0))
    for note in notes:
        label = Text(note.label, STYLES[note.tone] if note.tone else "cyan", no_wrap=True)
        table.add_row(label, Text(": ".join(filter(None, [note.subject, note.text]))))
    return table


class _Verbatim:
    """A text with all its tabs, and without line breaks of the terminal."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        yield Segment(f"{self._text}\n")


class _Grid:
    """A table that is split into several tables on a narrow terminal; each repeats the columns of texts."""

    def __init__(self, table: Table) -> None:
        self._table = table
        shown = [index for index, column in enumerate(table.columns) if not column.is_wide]
        self._texts = [index for index in shown if table.columns[index].is_text]
        self._figures = [index for index in shown if not table.columns[index].is_text]
        self._starred = [
            any(row.cells[index].tone == Tone.BEST for row in table.rows) for index, _ in enumerate(table.columns)
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        count, unlimited = len(self._figures), options.update_width(UNLIMITED)
        tables = [self._part([])]
        for parts in range(1, count + 1):
            edges = [round(part * count / parts) for part in range(parts + 1)]
            tables = [self._part(self._figures[start:end]) for start, end in itertools.pairwise(edges)]
            if max(Measurement.get(console, unlimited, table).maximum for table in tables) <= options.max_width:
                break
        yield from _separated(tables)

    def _part(self, figures: Sequence[int]) -> RichTable:
        part = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, self._table.gap, 0, 0))
        for index in self._texts:
            heading = self._table.columns[index].in_terminal or self._table.columns[index].name
            part.add_column(Text(heading), no_wrap=bool(figures), overflow="ellipsis" if figures else "fold")
        for place, index in enumerate(figures):
            part.add_column(
                Text(_heading(self._table.columns[index], is_first=not place)), justify="right", no_wrap=True
            )
        for row in self._table.rows:
            part.add_row(*(self._cell(row, index) for index in [*self._texts, *figures]))
            if self._table.is_spaced:
                part.add_row()
        return part

    def _cell(self, row: Row, index: int) -> Text:
        cell = row.cells[index]
        is_main = row.is_main and self._table.columns[index].is_text
        style = STYLES[cell.tone or (Tone.BEST if is_main else row.tone)]
        return Text("\n".join(_lines(cell, is_starred=self._starred[index])), style)


def _heading(column: Column, *, is_first: bool) -> str:
    # If a table begins between the columns of a shared heading, the full heading is repeated.
    is_apart = is_first and column.in_terminal.startswith("\n")
    return column.name.replace(" ", "\n") if is_apart else column.in_terminal or column.name


def _lines(cell: Cell, *, is_starred: bool) -> list[str]:
    """Return the lines of a cell; in a column with stars, all other figures are aligned with those before a star."""
    if cell.in_terminal is not None:
        return [cell.in_terminal]
    first, *more = list(filter(None, [cell.text, cell.below])) or [""]
    star = " " if is_starred else ""
    if cell.tone == Tone.BEST:
        star = "*"
    return [f"{first}{star}", *(f"{line}{star and ' '}" for line in more)]
