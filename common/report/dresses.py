"""The dresses of a result: the same comparison as a table and as JSON."""

import io

import msgspec
from rich.console import Console, RenderableType

from common.record import Result
from common.report.summary import summarize
from common.report.table import as_table

WIDTH = 130  # of what does not go to a terminal


def as_text(result: Result) -> str:
    """The table as plain text."""
    return _plain(as_table(result))


def _plain(shown: RenderableType) -> str:
    page = io.StringIO()
    Console(file=page, width=WIDTH, color_system=None).print(shown)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


def as_json(result: Result) -> str:
    """A list with one object for each case; its keys are a contract."""
    encoded = msgspec.json.encode(summarize(result).cases)
    return msgspec.json.format(encoded, indent=2).decode()


DRESSES = {"table": as_text, "json": as_json}


def show(shown: RenderableType) -> None:
    """Prints on stdout, in colour if that is a terminal."""
    console = Console()
    if console.is_terminal:
        console.print(shown)
    else:
        print(_plain(shown))  # noqa: T201


def all_ok(result: Result) -> bool:
    """Whether every case has the verdict `ok`."""
    return all(summary.verdict == "ok" for summary in summarize(result).cases)
