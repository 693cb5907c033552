"""Render a view as Markdown, for example for a comment on a pull request."""

import re
from collections.abc import Iterator
from dataclasses import replace

from under_siege.show.view import STAR, Cell, Medium, Note, Paragraph, Row, Table, Tone, View

_STRONG = {Tone.BEST, Tone.BAD, Tone.WORST, Tone.GOOD}


def rendered(view: View) -> str:
    """Return the conclusion, all columns of the tables, and the notes."""
    parts = [
        *(part for paragraph in view.headline for part in _paragraph(paragraph)),
        *(part for table in view.tables_in(Medium.DOCUMENT) for part in _table(table)),
        "\n".join(map(_note, view.notes)),
        "<br>".join(f"<sub>{plain(line.replace(STAR, 'bold:'))}</sub>" for line in view.footnotes),
        *(part for inner in view.parts for part in (f"## {plain(inner.title)}", rendered(inner))),
    ]
    return "\n\n".join(filter(None, parts))


def _paragraph(paragraph: Paragraph) -> Iterator[str]:
    text = plain(paragraph.text)
    yield f"**{text}**" if text and (paragraph.is_main or paragraph.tone) else _without_command(text)
    bullets = [*(f"{label}: {text}" for label, text in paragraph.facts), *paragraph.remarks]
    yield f"```\n{paragraph.code}\n```" if paragraph.code else ""
    yield "\n".join(f"- {plain(bullet)}" for bullet in bullets)


def _table(table: Table) -> Iterator[str]:
    yield "\n".join(_without_command(plain(line)) for line in table.caption)
    rules = ["---" if column.is_text else "---:" for column in table.columns]
    lines = [[plain(column.name) for column in table.columns], rules]
    lines += [list(map(_cell, _with_verdict(row, table.header))) for row in table.rows]
    yield "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _with_verdict(row: Row, header: int) -> list[Cell]:
    verdict = f" ({row.verdict})" if row.verdict else ""
    return [
        replace(cell, text=f"{cell.text}{verdict}") if index == header else cell for index, cell in enumerate(row.cells)
    ]


def _cell(cell: Cell) -> str:
    text = plain("; ".join(filter(None, [cell.text, cell.below])))
    return f"**{text}**" if text and cell.tone in _STRONG else text


def _note(note: Note) -> str:
    label, *texts = map(plain, (note.label, note.subject, note.text))
    if note.tone:  # `**suspect** 2_async: above the ceiling`, but `note: 2_async: closed its connections`
        label, *texts = f"**{label}** {texts[0]}".strip(), texts[1]
    return f"- {': '.join(filter(None, [label, *texts]))}"


def _without_command(line: str) -> str:
    """Return a line that GitLab does not read as a command to a merge request, such as `/close`."""
    return re.sub(r"\A/", r"\/", line)


def plain(text: str) -> str:
    """Return the text on one line, with the special characters of Markdown and HTML escaped.

    GitHub and GitLab notify the user `@name`, and link the issues `#12` and `GH-12` and the merge request `!12`, even
    if a backslash precedes the sign. An empty comment prevents this.
    """
    one_line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = re.sub(r"([\\|*\[\]`~]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", one_line)
    return re.sub(r"@(?=\S)|[#!](?=\d)|\bGH-(?=\d)", r"\g<0><!-- -->", escaped)
