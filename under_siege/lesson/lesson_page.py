"""The page of the lesson: every step that is done, with its question, pictures, and what was found. All is escaped."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from common.errors import BadInputError
from under_siege.analysis.report_data import summarize
from under_siege.capacity.capacity_page import capacity_pictures
from under_siege.capacity.capacity_result import capacities
from under_siege.charts.html import Explained, Picture, Section, rendered
from under_siege.faults.drill_export import drill_pictures
from under_siege.lesson import terminal
from under_siege.lesson.assertions import Found, found_in
from under_siege.lesson.lesson_figures import ResultView
from under_siege.lesson.progress_store import Done, Notebook
from under_siege.lesson.step import Page, Step, committed, lines_of
from under_siege.model.record import Result, load
from under_siege.pages.page_sections import sections
from under_siege.paths import PROGRAM

HERE = Path(__file__).parent
TITLE = "How servers run long tasks"


def lesson_as_html(steps: Sequence[Step], notebook: Notebook) -> str:
    """One page that holds everything that was done so far."""
    done = [step for step in steps if step.name in notebook.done]
    told = [_step(step, notebook.done[step.name], notebook) for step in done]
    return rendered(
        "lesson.html",
        HERE,
        style=(HERE / "lesson.css").read_text(encoding="utf-8"),
        heading=TITLE,
        program=PROGRAM,
        began_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        answer=[],
        explained=Explained(),
        unsaid=Unsaid(),
        sections=[],
        steps=told,
        undone=[f"{step.number}. {step.title}" for step in steps if step not in done],
        folder=str(notebook.folder),
        machine=next((one["machine"] for one in reversed(told) if not one["is_elsewhere"]), None),
    )


class Unsaid:
    """Sentences that did not stand on the page before: how a picture is read need not be told at each of its kind."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def of(self, text: str) -> str:
        """What is left of the text."""
        left = [one for one in re.split(r"(?<=[.?!])\s+", text) if one not in self._said]
        self._said.update(left)
        return " ".join(left)


def _step(step: Step, done: Done, notebook: Notebook) -> dict[str, Any]:
    pages, machine = [], None
    for page, predicted in zip(step.pages, done.predicted, strict=False):
        path = notebook.folder / done.result if done.result and page.run is not None else committed(step, page)
        try:
            result = load(path)
        except BadInputError as error:  # it was removed since
            pages.append(_told(step, page, predicted, None, str(error)))
            continue
        machine = result.environment
        pages.append(_told(step, page, predicted, result, done.instead))
    return {
        "number": step.number,
        "title": step.title,
        "pages": pages,
        "exercise": _with_code(step.exercise),
        "machine": machine,
        "is_elsewhere": not done.result or machine is None,
    }


def _told(step: Step, page: Page, predicted: str, result: Result | None, instead: str) -> dict[str, Any]:
    seen = ResultView(result) if result else None
    found = found_in(page, seen) if seen else Found((), "", undecided=True)
    has_table = seen is not None and result is not None and bool(result.records) and "table" in page.show
    return {
        "question": terminal.paragraph(page.question).split("\n\n"),
        "answers": list(_answers(page, predicted, found)),
        "verdict": terminal.verdict(page, predicted, found),
        "instead": instead,
        "figures": Section("", list(_pictures(page, result))).figures if result else [],
        "headings": [terminal.COLUMNS[what][0] for what in page.columns],
        "legend": terminal.legend(page),
        "rows": list(terminal.cells(page, seen)) if seen and has_table else [],
        "found": [(terminal.MARKS.get(outcome, "?"), sentence) for outcome, sentence in found.sentences],
        "elsewhere": terminal.elsewhere(step, page) if found.has_undecided and not instead else "",
        "drawn_elsewhere": _drawn_elsewhere(step, page) if found.has_undecided and not instead else [],
        "reasons": " ".join(found.reasons),
        "why": terminal.why(page, found),
        "code": [(one.file, one.says, lines_of(one)) for one in page.code],
    }


def _drawn_elsewhere(step: Step, page: Page) -> list[Any]:
    """The timeline of a quieter machine."""
    result = terminal.as_elsewhere(step, page)
    if result is None or "timeline" not in page.show:
        return []
    return Section("", [picture for picture in _pictures(page, result) if picture.name == "timeline"]).figures


def _with_code(text: str) -> Markup:
    """What stands between backticks as code; all of it escaped."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(" ".join(text.split())))))  # noqa: S704


def _answers(page: Page, predicted: str, found: Found) -> Iterator[dict[str, str]]:
    for letter, answer in zip(page.letters, page.answers, strict=True):
        said = ["your prediction"] if letter == predicted else []
        said += ["what was measured"] if letter == found.right else []
        yield {
            "text": " ".join(answer.text.split()),
            "marks": "right" if letter == found.right else "",
            "said": ", and ".join(said),
        }


def _pictures(page: Page, result: Result) -> Iterator[Picture]:
    """Those that the step names, of all that can be drawn of the result."""
    if result.steps:
        yield from capacity_pictures(capacities(result))
    elif result.incidents:
        yield from drill_pictures(result)
    else:
        several = [picture for one in sections(result, summarize(result)) for picture in one.pictures]
        yield from (picture for name in page.pictures for picture in several if picture.name == name)
