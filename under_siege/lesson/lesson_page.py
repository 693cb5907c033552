"""Write the HTML page of the lesson, with the questions, charts and answers of each completed step."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from common.errors import BadInputError
from under_siege.capacity.capacity_estimate import capacities_of
from under_siege.capacity.capacity_page import capacity_pictures
from under_siege.drill.drill_report import drill_pictures
from under_siege.judge.ranking import summarize
from under_siege.lesson import terminal
from under_siege.lesson.claims import QuestionResult, ResultView, decide_question
from under_siege.lesson.step import LessonProgress, LessonStep, Question, committed_result
from under_siege.paths import PROGRAM
from under_siege.record.record import Result, load
from under_siege.run.figures import figures
from under_siege.show.html_page import Explained, Picture, Section, rendered

HERE = Path(__file__).parent


def lesson_as_html(steps: Sequence[LessonStep], progress: LessonProgress) -> str:
    done = [_step(step, progress) for step in steps if step.name in progress.completed]
    return rendered(
        "lesson.html",
        HERE,
        style=(HERE / "lesson.css").read_text(encoding="utf-8"),
        heading="How servers run long tasks",
        program=PROGRAM,
        began_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        answer=[],
        explained=Explained(),
        not_yet_explained=FirstTime(),
        terminal=terminal,
        sections=[],
        steps=done,
        undone=[f"{step.number}. {step.title}" for step in steps if step.name not in progress.completed],
        folder=str(progress.folder),
        machine=next((step["machine"] for step in reversed(done) if step["machine"]), None),
    )


class FirstTime:
    """Filter explanations, so that each sentence appears on the page only once."""

    def __init__(self) -> None:
        self._printed: set[str] = set()

    def new_sentences(self, text: str) -> str:
        sentences = [each for each in re.split(r"(?<=[.?!])\s+", text) if each not in self._printed]
        self._printed.update(sentences)
        return " ".join(sentences)


def _step(step: LessonStep, progress: LessonProgress) -> dict[str, Any]:
    completed, machine = progress.completed[step.name], None
    questions = []
    for question, predicted in zip(step.questions, completed.predicted, strict=False):
        is_own = completed.result and question.run is not None
        path = progress.folder / completed.result if is_own else committed_result(step, question)
        try:
            result = load(path)
            machine = result.environment if completed.result else None
            questions.append(_question_data(step, question, predicted, result, completed.instead))
        except BadInputError as error:  # for example because the user removed the file
            questions.append(_question_data(step, question, predicted, None, str(error)))
    exercise = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(" ".join(step.exercise.split()))))
    return {"step": step, "questions": questions, "exercise": Markup(exercise), "machine": machine}  # noqa: S704 (escaped)


def _question_data(
    step: LessonStep, question: Question, predicted: str, result: Result | None, instead: str
) -> dict[str, Any]:
    view = ResultView(result) if result else None
    decision = decide_question(question, view) if view else QuestionResult((), "", undecided=True)
    has_table = result is not None and bool(result.records) and "table" in question.show
    is_open = decision.has_undecided and not instead
    traced = terminal.committed_traces(step, question) if is_open and "timeline" in question.show else None
    timelines = [each for each in _pictures(question, traced) if each.name == "timeline"] if traced else []
    return {
        "question": question,
        "decision": decision,
        "predicted": predicted,
        "instead": instead,
        "figures": Section("", list(_pictures(question, result))).figures if result else [],
        "rows": list(terminal.rows(question, view)) if view and has_table else [],
        "elsewhere": terminal.committed_findings(step, question) if is_open else "",
        "figures_elsewhere": Section("", timelines).figures,
    }


def _pictures(question: Question, result: Result) -> Iterator[Picture]:
    if result.steps:
        yield from capacity_pictures(capacities_of(result))
    elif result.incidents:
        yield from drill_pictures(result)
    else:
        pictures = list(figures(summarize(result)))
        yield from (picture for name in question.pictures for picture in pictures if picture.name == name)
