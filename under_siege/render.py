"""The output formats of a result: table, timelines, Markdown, CSV, JSON, HTML, and single pictures."""

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console, RenderableType
from rich.text import Text

from common.errors import BadInputError
from under_siege.analysis.report_data import summarize
from under_siege.analysis.threshold_check import Judged, check_has, exit_code_of, judged
from under_siege.capacity import capacity_export, capacity_result
from under_siege.checks.verdict import FAILED, OK
from under_siege.model.record import Result, save
from under_siege.model.result_file import write_whole
from under_siege.model.threshold import required
from under_siege.paths import PROGRAM
from under_siege.report import comparison_export
from under_siege.report.sweep_text import sweeps_as_data
from under_siege.report.threshold_text import required_as_data
from under_siege.trace.timeline_text import TimelinesAsText, steps

if TYPE_CHECKING:
    from under_siege.charts.html import Picture

WIDTH = 136  # columns of output that does not go to a terminal


def as_shown(result: Result, dress: str = "table", *, corrected: bool = True, wide: bool = False) -> RenderableType:
    """Return a result as a table or as timelines for a terminal; `wide` adds columns to the table of a comparison."""
    if dress == "table" and (result.records or result.incidents or result.steps or not result.traces):
        table: RenderableType = _exporter(result, corrected=corrected, wide=wide)["table"]()
        return table
    if result.traces:
        return TimelinesAsText(result)
    return Text(f"Nothing was traced: run with --trace, or see {PROGRAM} trace.")


def _exporter(result: Result, *, corrected: bool, wide: bool = False) -> dict[str, Callable[[], Any]]:
    module: Any = capacity_export if result.steps else comparison_export
    if result.incidents:
        from under_siege.faults import drill_export  # with all that faults need, it takes a while to load

        module = drill_export
    more = {"corrected": corrected} if module is comparison_export else {}
    exporters: dict[str, Callable[[], Any]] = {
        name: partial(getattr(module, f"as_{name}"), result, **more) for name in ("table", "markdown", "csv")
    }
    if wide and module is comparison_export:
        exporters["table"] = partial(comparison_export.as_table, result, corrected=corrected, wide=True)
    return exporters


def _plain(shown: RenderableType) -> str:
    page = io.StringIO()
    Console(file=page, width=WIDTH, color_system=None).print(shown)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


def as_json(result: Result, *, corrected: bool = True) -> str:
    """What was measured where, and an object for each case; the keys are a contract."""
    comparison = summarize(result, corrected=corrected)
    told = {
        "schema": result.schema,
        "command": result.command,
        "began_at": result.began_at,
        "environment": result.environment,
        "cases": capacity_export.as_data(result) if result.steps else comparison.cases,
    }
    if along := sweeps_as_data(comparison):
        told["sweeps"] = along
    if result.requirements:
        told["requirements"] = required_as_data(judged(result, comparison))
    if result.incidents:
        from under_siege.faults import drill_export

        told["cells"] = drill_export.as_data(result)
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode()


def as_html(result: Result, *, corrected: bool = True) -> str:
    """One page that holds everything, pictures included."""
    if result.incidents:
        from under_siege.faults.drill_export import drill_as_html

        return drill_as_html(result)
    if result.steps:
        from under_siege.capacity.capacity_page import capacity_as_html

        return capacity_as_html(result)
    from under_siege.pages.comparison_page import as_html  # drawing takes a while to load

    return as_html(result, corrected=corrected)


def dressed(result: Result, dress: str, *, corrected: bool = True) -> str:
    """Return the result as `table`, `timeline`, `markdown`, `csv`, `json` or `html`."""
    if dress in ("table", "timeline"):
        return _plain(as_shown(result, dress, corrected=corrected))
    if dress in ("json", "html"):
        return (as_json if dress == "json" else as_html)(result, corrected=corrected)
    text: str = _exporter(result, corrected=corrected)[dress]()
    return text


def show(shown: RenderableType) -> None:
    console = Console()
    if console.is_terminal:
        console.print(shown)
    else:
        tell(_plain(shown))


def tell(text: str) -> None:
    print(text)  # noqa: T201


_SUFFIXES = (".svg", ".png", ".html", ".json")


def check_suffix(path: Path) -> None:
    """Raises BadInputError if nothing can be drawn as that."""
    if path.suffix not in _SUFFIXES:
        raise BadInputError(f"can't draw as {path.name!r}: expected a name that ends in {', '.join(_SUFFIXES)}")


def write_picture(result: Result, name: str, path: Path, aspect: str | None = None, columns: int = 1) -> None:
    """Draws the picture of that name (of the first task, where there are several); the suffix says as what.

    Args:
        aspect: of a slide, such as `16:9`; else it is as high as it takes.
        columns: in which timelines stand beside each other.

    Raises:
        BadInputError: the result has nothing to draw it from, or the suffix or the aspect is unknown.
    """
    from under_siege.charts.chart_file import as_png, check_aspect

    check_suffix(path)
    check_aspect(aspect)
    if path.suffix == ".html":
        write_whole(path, as_html(result).encode())
        return
    if path.suffix == ".json":
        save(result, path)
        return
    from under_siege.pages.page_sections import traced

    pictures = [traced(result, columns)] if columns > 1 and result.traces else _pictures(result)
    picture = next((picture for picture in pictures if picture.name == name), None)
    if picture is None:
        hows = {"timeline": "run with --trace", "capacity": f"take a result of {PROGRAM} capacity"}
        how = hows.get(name, "take a result with cases that have numbers")
        raise BadInputError(f"nothing in this result to draw {name} from: {how}")
    svg = picture.alone(aspect)
    write_whole(path, svg.encode() if path.suffix == ".svg" else as_png(svg, is_slide=aspect is not None))


def _pictures(result: Result) -> "Iterator[Picture]":
    from under_siege.pages.page_sections import sections

    if result.steps:
        from under_siege.capacity.capacity_page import capacity_pictures

        return capacity_pictures(capacity_result.capacities(result))
    return (picture for section in sections(result, summarize(result)) for picture in section.pictures)


def show_again(
    result: Result,
    dress: str,
    out: Path | None,
    picture: str | None = None,
    aspect: str | None = None,
    across: str | None = None,
    *,
    corrected: bool = True,
    wide: bool = False,
) -> None:
    """A result as it is asked for: as one picture, along an axis, into a file, or on stdout.

    Raises:
        BadInputError: the result has nothing of that kind, or there is no such picture or aspect.
    """
    if picture is not None and out is not None:
        write_picture(result, picture, out, aspect)
    elif aspect is not None:
        raise BadInputError("--aspect is the shape of a picture: expected --picture NAME with it")
    elif across is not None:
        show(comparison_export.as_across(result, across, corrected=corrected))
    elif out is not None:
        write_whole(out, f"{dressed(result, dress, corrected=corrected)}\n".encode())
    elif dress in ("table", "timeline"):
        show(as_shown(result, dress, corrected=corrected, wide=wide))
    else:
        tell(dressed(result, dress, corrected=corrected))


def show_traces(result: Result, out: Path | None, *, beside: bool = False, step: bool = False) -> None:
    """The timelines on stdout or as a picture; step by step each key shows what became of the next request."""
    if out is not None:
        write_picture(result, "timeline", out, columns=min(2, len(result.traces)) if beside else 1)
    elif step:
        for number, state in enumerate(steps(result, beside=beside)):
            show(state)
            if number:
                click.pause("(a key for the next request)")  # does nothing where nobody sits before it
    elif result.traces:
        show(TimelinesAsText(result, beside=beside))


def show_all(result: Result, out: Path | None, page: Path | None, *, wide: bool = False) -> None:
    """What a run has given: the answer and its figures on stdout, and on stderr where the rest is.

    Args:
        out: where the raw values are; None if they could not be saved.
    """
    if not result.records and not result.incidents and not result.steps:
        return
    try:
        show(as_shown(result, wide=wide))
        if result.traces:
            show(TimelinesAsText(result))
    finally:  # even if stdout is on a full disk
        print("Raw values could not be saved." if out is None else f"Raw values: {out}", file=sys.stderr)  # noqa: T201
    if page is not None:
        write_whole(page, as_html(result).encode())
        print(f"Page: {page}", file=sys.stderr)  # noqa: T201


def exit_code(result: Result) -> int:
    """0 if every case is `ok` and all that is required is met.

    1 if one failed or something is missed; 3 if neither, but one is suspect or unclear, or something undecided.
    """
    if result.incidents:
        from under_siege.faults import drill_result

        return drill_result.exit_code(result)
    if result.steps:
        return capacity_result.exit_code(result)
    comparison = summarize(result)
    verdicts = {summary.verdict for summary in comparison.cases}
    of_required = exit_code_of(judged(result, comparison))
    return 1 if FAILED in verdicts or of_required == 1 else 3 if verdicts - {OK} or of_required else 0


def requiring(result: Result, texts: Sequence[str], *, has_base: bool = False) -> list[Judged]:
    """Requires that of the result, too, and says what comes of all that is required of it alone.

    Raises:
        BadInputError: a requirement can't be read, or the result has no such figure.
    """
    given = required(texts)
    for one in given:
        if one.goal.of_base and not has_base:
            raise BadInputError(f"{one.text!r}: one result has no base: expected that with {PROGRAM} compare")
    comparison = summarize(result)
    check_has(comparison, given)
    result.requirements = list(dict.fromkeys((*result.requirements, *given)))
    return judged(result, comparison)
