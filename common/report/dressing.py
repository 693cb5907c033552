"""The dresses of a result: the same comparison as a table, Markdown, CSV, JSON and HTML."""

import io
import sys
from pathlib import Path

import msgspec
from rich.console import Console, RenderableType
from rich.text import Text

from common.model.outfile import write_whole
from common.model.record import Result
from common.report.dresses import drill_dresses
from common.report.dresses.across import as_across
from common.report.dresses.markdown import as_markdown
from common.report.dresses.spreadsheet import as_csv
from common.report.dresses.table import as_table
from common.report.dresses.timeline_text import TimelinesAsText
from common.report.judging.comparison import summarize
from common.report.judging.verdict import FAILED, OK

WIDTH = 136  # of what does not go to a terminal


def as_timelines(result: Result) -> RenderableType:
    """Who computed when, for a terminal."""
    return (
        TimelinesAsText(result)
        if result.traces
        else Text("Nothing was traced: run with --trace, or see bench.py trace.")
    )


def as_shown(result: Result, dress: str = "table", *, corrected: bool = True) -> RenderableType:
    """The table or the timelines for a terminal, as wide as that is."""
    if dress == "table" and result.incidents:
        return drill_dresses.as_table(result)
    if dress == "table" and (result.records or not result.traces):
        return as_table(result, corrected=corrected)
    return as_timelines(result)


def across_shown(result: Result, axis: str, *, corrected: bool = True) -> RenderableType:
    """The values of one axis beside each other; raises BadInputError if it has not two."""
    return as_across(result, axis, corrected=corrected)


def _plain(shown: RenderableType) -> str:
    page = io.StringIO()
    Console(file=page, width=WIDTH, color_system=None).print(shown)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


def as_json(result: Result, *, corrected: bool = True) -> str:
    """What was measured where, and an object for each case; the keys are a contract."""
    told = {
        "schema": result.schema,
        "command": result.command,
        "began_at": result.began_at,
        "environment": result.environment,
        "cases": summarize(result, corrected=corrected).cases,
    }
    if result.incidents:
        told["cells"] = drill_dresses.as_data(result)
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode()


def as_html(result: Result, *, corrected: bool = True) -> str:
    """One page that holds everything, pictures included."""
    if result.incidents:
        from common.report.page.drill_page import drill_as_html

        return drill_as_html(result)
    from common.report.page.page import as_html  # drawing takes a while to load

    return as_html(result, corrected=corrected)


def dressed(result: Result, dress: str, *, corrected: bool = True) -> str:
    """As `table`, `timeline`, `markdown`, `csv`, `json` or `html`."""
    if dress in ("table", "timeline"):
        return _plain(as_shown(result, dress, corrected=corrected))
    if result.incidents and dress in ("markdown", "csv"):
        return drill_dresses.as_markdown(result) if dress == "markdown" else drill_dresses.as_csv(result)
    dresses = {"markdown": as_markdown, "csv": as_csv, "json": as_json, "html": as_html}
    return dresses[dress](result, corrected=corrected)


def show(shown: RenderableType) -> None:
    """Prints on stdout, in colour if that is a terminal."""
    console = Console()
    if console.is_terminal:
        console.print(shown)
    else:
        tell(_plain(shown))


def tell(text: str) -> None:
    """Prints it on stdout as it is."""
    print(text)  # noqa: T201


def show_all(result: Result, out: Path | None, page: Path | None) -> None:
    """What a run has given: the answer and its figures on stdout, and on stderr where the rest is.

    Args:
        out: where the raw values are; None if they could not be saved.
    """
    if not result.records and not result.incidents:
        return
    try:
        show(as_shown(result))
        if result.traces:
            show(as_timelines(result))
    finally:  # even if stdout is on a full disk
        print("Raw values could not be saved." if out is None else f"Raw values: {out}", file=sys.stderr)  # noqa: T201
    if page is not None:
        write_whole(page, as_html(result).encode())
        print(f"Page: {page}", file=sys.stderr)  # noqa: T201


def exit_code(result: Result) -> int:
    """0 if every case is `ok`, 1 if one failed, 3 if none failed but one is suspect or unclear."""
    verdicts = {summary.verdict for summary in summarize(result).cases}
    return 1 if FAILED in verdicts else 3 if verdicts - {OK} else 0
