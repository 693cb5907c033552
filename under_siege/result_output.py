"""Write a result in each output format: table, timelines, Markdown, CSV, JSON, HTML, and single charts."""

import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console, RenderableType

from common.errors import BadInputError
from under_siege.capacity import view as capacity_view
from under_siege.judge.goal import goal, required
from under_siege.judge.ranking import Comparison, summarize
from under_siege.judge.requirement_check import Judged, check_has, judged
from under_siege.paths import PROGRAM
from under_siege.profile import view as profile_view
from under_siege.record.files import write_atomically
from under_siege.record.result import Result, save
from under_siege.run.matrix import across_view
from under_siege.run.view import comparison_table, view
from under_siege.show.formats import rendered
from under_siege.show.formats.table import WIDTH, renderable
from under_siege.show.view import Medium, View, with_all_columns
from under_siege.trace import view as trace_view

if TYPE_CHECKING:
    from under_siege.compare.diff import ResultComparison

_SUFFIXES = (".svg", ".png", ".html", ".json", ".json.gz")


class Report:
    """Format a result for output. Its statistics are computed once, when they are first needed."""

    def __init__(self, result: Result, *, corrected: bool = True) -> None:
        """Prepare the report; if `corrected`, adjust rates and their intervals for the speed of the CPUs."""
        self.result = result
        self._corrected = corrected

    @cached_property
    def comparison(self) -> Comparison:
        return summarize(self.result, corrected=self._corrected)

    @cached_property
    def revisions(self) -> "ResultComparison | None":
        """Return a comparison of the two measured revisions, or None if only one was measured."""
        if self.result.suite is None or not self.result.suite.against:
            return None
        from under_siege.compare.diff import compare_revisions

        return compare_revisions(self.result)

    @property
    def view(self) -> View:
        if self.result.incidents:
            from under_siege.drill.view import view as view_of_drill  # a slow import

            return view_of_drill(self.result)
        if self.result.steps:
            return capacity_view.view(self.result)
        whole = view(self.comparison)
        return whole if self.revisions is None else _with_changes(whole, self.comparison, self.revisions)

    def for_terminal(self, output_format: str = "table", *, wide: bool = False) -> RenderableType:
        """Return the result as a table, timelines or profiles; `wide` adds columns to the table of a comparison."""
        result = self.result
        if output_format == "profile":
            return renderable(profile_view.view(result))
        if output_format == "table" and (result.records or result.incidents or result.steps or not result.traces):
            return renderable(with_all_columns(self.view) if wide else self.view)
        return renderable(trace_view.view(result))

    def formatted(self, output_format: str) -> str:
        """Return the result as `table`, `timeline`, `profile`, `markdown`, `csv`, `json` or `html`."""
        if output_format in ("table", "timeline", "profile"):
            return _plain(self.for_terminal(output_format))
        return rendered(self.view, output_format)

    def write_picture(self, name: str, path: Path, aspect: str | None = None, *, side_by_side: bool = False) -> None:
        """Draw the picture with this name (if there are several, the first one) in the format given by the suffix.

        For `.html`, write the whole page instead; for `.json` and `.json.gz`, write the raw values.

        Args:
            aspect: the shape of a slide, such as `16:9`, or None for a picture that is as tall as needed.
            side_by_side: whether to draw two timelines side by side.

        Raises:
            BadInputError: the result has no data for this picture, or the suffix or the aspect is unknown.
        """
        from under_siege.show.charts import as_png, check_aspect

        check_suffix(path)
        check_aspect(aspect)
        if path.suffix == ".html":
            write_atomically(path, self.formatted("html").encode())
            return
        if path.name.endswith((".json", ".json.gz")):
            save(self.result, path)
            return
        has_pair = side_by_side and self.result.traces
        pictures = [trace_view.figure(self.result, side_by_side=True)] if has_pair else self.view.figures
        picture = next((picture for picture in pictures if picture.name == name), None)
        if picture is None:
            remedies = {"timeline": "run with --trace", "capacity": f"use a result of {PROGRAM} capacity"}
            remedy = remedies.get(name, "use a result in which at least one case did not fail")
            raise BadInputError(f"this result has no data for the picture {name}: {remedy}")
        svg = picture.alone(aspect)
        write_atomically(path, svg.encode() if path.suffix == ".svg" else as_png(svg, aspect))

    def show(
        self,
        output_format: str,
        out: Path | None,
        picture: str | None = None,
        aspect: str | None = None,
        across: str | None = None,
        *,
        wide: bool = False,
    ) -> None:
        """Draw one picture, print a column for each value of an axis, or write the result to a file or stdout.

        Raises:
            BadInputError: the result lacks the required data, or the picture or the aspect is unknown.
        """
        if picture is not None and out is not None:
            self.write_picture(picture, out, aspect)
        elif aspect is not None:
            raise BadInputError("--aspect without a chart: expected --picture NAME, too")
        elif across is not None:
            show(renderable(across_view(self.comparison, across)))
        elif out is not None:
            write_atomically(out, f"{self.formatted(output_format)}\n".encode())
        elif output_format in ("table", "timeline", "profile"):
            show(self.for_terminal(output_format, wide=wide))
        else:
            print_text(self.formatted(output_format))

    def show_traces(self, out: Path | None, *, side_by_side: bool = False, step: bool = False) -> None:
        """Print the timelines, or draw them to a file; with `step`, wait for a key after each request."""
        if out is not None:
            self.write_picture("timeline", out, side_by_side=side_by_side)
        elif step:
            for number, state in enumerate(trace_view.steps(self.result, side_by_side=side_by_side)):
                if number > 1:
                    click.pause("(press a key for the next request)")  # does nothing without a terminal
                show(state)
        elif self.result.traces:
            show(renderable(trace_view.view(self.result, side_by_side=side_by_side)))

    def show_all(self, out: Path | None, page: Path | None, *, wide: bool = False) -> None:
        """Print the result on stdout and the names of the written files on stderr, and write the HTML page.

        Args:
            out: the file with the raw values, or None if they could not be saved.
            page: the file for the HTML page, or None.
        """
        if not self.result.records and not self.result.incidents and not self.result.steps:
            return
        try:
            show(self.for_terminal(wide=wide))
            if self.result.traces:
                show(renderable(trace_view.view(self.result)))
            if self.result.profiles:
                show(renderable(profile_view.view(self.result)))
        finally:  # even if writing to stdout fails, for example because the disk is full
            print("Raw values could not be saved." if out is None else f"Raw values: {out}", file=sys.stderr)  # noqa: T201
        if page is not None:
            write_atomically(page, self.formatted("html").encode())
            print(f"Page: {page}", file=sys.stderr)  # noqa: T201

    def write_profiles(self, path: Path) -> None:
        """Write the profiles as raw values, a chart, a page, or a speedscope.app file, depending on the file name."""
        if path.name.endswith(profile_view.SPEEDSCOPE):
            write_atomically(path, profile_view.as_speedscope(self.result))
        else:
            self.write_picture("profile", path)

    def exit_code(self) -> int:
        """Return the exit code of the command that measured the result."""
        return self.view.exit_code

    def add_requirements(self, texts: Sequence[str], *, has_base: bool = False) -> list[Judged]:
        """Add requirements to the result, and judge all requirements that don't need a base.

        Raises:
            BadInputError: a requirement is invalid, or the result lacks its metric.
        """
        added = required(texts)
        for requirement in added:
            if goal(requirement.text).of_base and not has_base:
                raise BadInputError(
                    f"{requirement.text!r} needs a base to compare with; use it with {PROGRAM} compare BASE NEW"
                )
        check_has(self.comparison, added)
        self.result.requirements = list(dict.fromkeys((*self.result.requirements, *added)))
        return judged(self.comparison)


def _with_changes(whole: View, comparison: Comparison, changes: "ResultComparison") -> View:
    """Return the view of a run with the changes between its revisions instead of a recommendation."""
    from under_siege.compare.view import view as view_of_changes

    found = view_of_changes(changes)
    of_changes, *others = found.tables
    everything = replace(comparison_table(comparison, (), {Medium.PAGE}), caption=whole.footnotes)
    data = {name: value for name, value in (whole.data or {}).items() if name != "requirements"}
    return replace(
        whole,
        headline=found.headline,
        tables=[of_changes, everything, *others],
        notes=found.notes,
        footnotes=found.footnotes,
        data={**data, "revisions": found.data},
        exit_code=found.exit_code,
    )


def _plain(renderable: RenderableType) -> str:
    output = io.StringIO()
    Console(file=output, width=WIDTH, color_system=None).print(renderable)
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines())


def show(renderable: RenderableType) -> None:
    """Print in colour and at the terminal's width, or as plain text if stdout is not a terminal."""
    console = Console()
    if console.is_terminal:
        console.print(renderable)
    else:
        print_text(_plain(renderable))


def print_text(text: str) -> None:
    print(text)  # noqa: T201


def check_suffix(path: Path) -> None:
    """Raise BadInputError if the suffix is not supported."""
    if not path.name.endswith(_SUFFIXES):
        raise BadInputError(f"can't draw {path.name!r}: expected one of the suffixes {', '.join(_SUFFIXES)}")
