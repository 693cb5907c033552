"""Render a view for a terminal, or as plain text."""

import io
import itertools
from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from under_siege.show.view import Cell, Column, Note, Paragraph, Row, Table, Tone, View

WIDTH = 136  # width in characters if the output is not a terminal
UNLIMITED = 10_000  # width of a terminal that never wraps lines
LABEL_WIDTH = 14
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
    output = io.StringIO()
    Console(file=output, width=WIDTH, color_system=None).print(renderable(view))
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines())


def show(view: View, *, wide: bool = False) -> None:
    """Print the view in colour and at the terminal's width, or as plain text if stdout is not a terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH, color_system=None)
    console.print(renderable(view, wide=wide))


def renderable(view: View, *, wide: bool = False) -> RenderableType:
    """Return the view for a rich console; `wide` shows the less important columns, too."""
    return Group(*_separated(_blocks(view, wide=wide)))


def _separated(blocks: Iterator[RenderableType]) -> Iterator[RenderableType]:
    for index, block in enumerate(blocks):
        yield from ([Text()] if index else [])
        yield block


def _blocks(view: View, *, wide: bool) -> Iterator[RenderableType]:
    if view.headline:
        yield Group(*_separated(iter([_paragraph(paragraph) for paragraph in view.headline])))
    for table in view.tables:
        if table.rows:
            yield _Grid(_selected(table, wide=wide))
    yield from (figure.in_terminal for figure in view.figures if figure.in_terminal is not None)
    if view.notes:
        notes = RichTable.grid(padding=(0, 1, 0, 0))
        for note in view.notes:
            notes.add_row(*_note(note))
        yield notes
    if view.footnotes:
        yield Text("\n".join(view.footnotes), style="dim")


def _paragraph(paragraph: Paragraph) -> Text:
    facts = [f"  {label:<{LABEL_WIDTH}}{text}" for label, text in paragraph.facts]
    parts = [part for part in ([paragraph.text], facts, [*paragraph.remarks]) if part]
    return Text("\n\n".join("\n".join(part) for part in parts), STYLES[paragraph.tone])


def _note(note: Note) -> tuple[Text, Text]:
    label_style = STYLES[note.tone] if note.tone else "cyan"
    return Text(note.label, label_style, no_wrap=True), Text(": ".join(filter(None, [note.subject, note.text])))


def _selected(table: Table, *, wide: bool) -> Table:
    """Return the table with the columns that a terminal shows."""
    shown = [index for index, column in enumerate(table.columns) if wide or not column.is_wide]
    rows = [Row([row.cells[index] for index in shown], row.tone) for row in table.rows]
    columns = [table.columns[index] for index in shown]
    return Table(table.name, table.title, columns, rows, gap=table.gap, is_spaced=table.is_spaced)


class _Grid:
    """A table that is split into several tables on a narrow terminal; each repeats the columns of texts."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._texts = [index for index, column in enumerate(table.columns) if column.is_text]
        self._figures = [index for index, column in enumerate(table.columns) if not column.is_text]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        count, unlimited = len(self._figures), options.update_width(UNLIMITED)
        tables = [self._part([])]
        for parts in range(1, count + 1):
            edges = [round(part * count / parts) for part in range(parts + 1)]
            tables = [self._part(self._figures[start:end]) for start, end in itertools.pairwise(edges)]
            if max(Measurement.get(console, unlimited, table).maximum for table in tables) <= options.max_width:
                break
        yield from _separated(iter(tables))

    def _part(self, figures: Sequence[int]) -> RichTable:
        gap = self._table.gap
        part = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, gap, 0, 0))
        for index in self._texts:
            column = self._table.columns[index]
            part.add_column(column.in_terminal or column.name, no_wrap=bool(figures), overflow="fold")
        for place, index in enumerate(figures):
            part.add_column(_heading(self._table.columns[index], is_first=not place), justify="right", no_wrap=True)
        for row in self._table.rows:
            part.add_row(*(_cell(row.cells[index], row.tone) for index in [*self._texts, *figures]))
            if self._table.is_spaced:
                part.add_row()
        return part


def _heading(column: Column, *, is_first: bool) -> str:
    # If a table begins between the columns of a shared heading, the full heading is repeated.
    is_apart = is_first and column.in_terminal.startswith("\n")
    return column.name.replace(" ", "\n") if is_apart else column.in_terminal or column.name


def _cell(cell: Cell, tone: Tone) -> Text:
    text = "\n".join(filter(None, [cell.text, cell.below])) if cell.in_terminal is None else cell.in_terminal
    return Text(text, STYLES[cell.tone or tone])
