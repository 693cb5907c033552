"""The teacher: leads through steps, one after the other, and writes down what came of them."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console, RenderableType

from common.errors import BadInputError
from under_siege.lesson import terminal
from under_siege.lesson.assertions import Found, found_in
from under_siege.lesson.lesson_figures import ResultView
from under_siege.lesson.lesson_progress import LessonProgress
from under_siege.lesson.measurement import StoppedError, lacking, measure, turns
from under_siege.lesson.progress_store import Done, Notebook
from under_siege.lesson.step import Page, Run, Step, all_steps, committed
from under_siege.model.record import Result, load
from under_siege.model.result_file import write_whole
from under_siege.paths import PROGRAM, ROOT
from under_siege.trace.timeline_text import TimelinesAsText

FAILED, NOT_DECIDED = 1, 3


class Teacher:
    """Goes through steps with whoever reads."""

    def __init__(self, notebook: Notebook, page: Path | None, answers: Sequence[str]) -> None:
        """Predictions are taken from the answers, one for each question, or one for all; and asked for if none."""
        self._notebook, self._page, self._answers = notebook, page, list(answers)
        self._console: Console = terminal.console()
        self._questions = 0  # that were asked so far
        self._codes = {0}  # what the exit code may have to be

    def teach(self, steps: Sequence[Step]) -> int:
        """All of them; the exit code of the command."""
        self._check_answers(steps)
        for step in steps:
            try:
                self._step(step)
            except StoppedError as stopped:
                number = int(stopped.args[0])
                self._say(f"Stopped at step {step.number}: {PROGRAM} lesson {step.number} goes on with it.")
                return 128 + number if number else 0
            self._write_page()
            self._say(self._what_next(step))
        return FAILED if FAILED in self._codes else max(self._codes)

    def _check_answers(self, steps: Sequence[Step]) -> None:
        pages = [(step, page) for step in steps for page in step.pages]
        if len(self._answers) == 1:
            self._answers *= len(pages)
        if self._answers and len(self._answers) != len(pages):
            raise BadInputError(
                f"--answer has {len(self._answers)} letters for {len(pages)} questions: expected one, or one for each"
            )
        for (step, page), letter in zip(pages, self._answers, strict=False):  # there may be none
            if letter not in page.letters:
                known = ", ".join(page.letters)
                raise BadInputError(f"--answer {letter}: step {step.number} has {known}: expected one of them")

    def _step(self, step: Step) -> None:
        """Question after question."""
        predicted, right, instead, kept = "", "", "", ""
        for place, page in enumerate(step.pages, 1):
            self._say("\n" + terminal.asked(step, page, place) + "\n")
            predicted += (letter := self._prediction(page))
            result, instead, path = self._result_for(step, page)
            kept = kept or path
            found = self._shown(page, result, letter)
            if found.has_undecided and not instead:
                self._show_elsewhere(step, page)
            if place < len(step.pages):
                self._pause("Enter: the next question")
            right += found.right or "?"
            if found.has_undecided:
                self._codes.add(NOT_DECIDED)
        self._say("\n" + terminal.paragraph(f"Exercise. {step.exercise}"))
        self._notebook.keep(step, Done(predicted, right, kept, instead))

    def _prediction(self, page: Page) -> str:
        """A letter; asks again until it is one of the page's."""
        self._questions += 1
        if self._answers:
            letter = self._answers[self._questions - 1]
            self._say(f"Your prediction: {letter}")
            return letter
        known = ", ".join(page.letters)
        while True:
            click.echo(f"Your prediction ({known}; q stops here): ", nl=False)
            line = sys.stdin.readline()
            if not line:
                raise BadInputError(f"no prediction came: expected one of {known}, or --answer with one of them")
            letter = line.strip().upper()
            if letter == "Q":
                raise StoppedError(0)
            if letter in page.letters and len(letter) == 1:
                return letter
            self._say(f"{letter[:20]!r} is none of the answers: expected one of {known}.")

    def _result_for(self, step: Step, page: Page) -> tuple[Result, str, str]:
        """What was measured here and now, or else what was measured elsewhere, and why that; and the file."""
        if page.run is None:
            self._say(f"\nThis was measured before: {page.result}")
            return load(committed(step, page)), "", ""
        if lacks := lacking(page):
            return self._measured_elsewhere(step, page, f"This machine {lacks}.")
        self._say(f"\n{_announced(page.run)}")
        result = self._measured(step, page, page.run)
        if isinstance(result, str) or _failures(result):
            self._codes.add(FAILED)
        if isinstance(result, str):
            return self._measured_elsewhere(step, page, f"It could not be measured here: {result.rstrip('.')}.")
        kept = self._notebook.result_of(step)
        if (unfinished := _unfinished(kept)).exists():  # there may have been no room
            unfinished.replace(kept)
        return result, "", kept.name

    def _measured(self, step: Step, page: Page, run: Run) -> Result | str:
        """What was measured here and now; or why there is nothing of it."""
        out = _unfinished(self._notebook.result_of(step))  # what was kept before stays until there is something new
        command = [PROGRAM, "lesson", str(step.number)]
        with LessonProgress(turns(run)) as progress:
            try:
                result, stopped_by = measure(page, out, progress, command, self._say)
            except BadInputError as error:
                if not run.pythons:  # what ours lacks is to be mended; another Python need not be there
                    raise
                return str(error)
        if stopped_by:
            raise StoppedError(stopped_by)
        failures = _failures(result)
        return result if len(failures) < len(_parts(result)) else (failures or ["nothing was measured"])[0]

    def _measured_elsewhere(self, step: Step, page: Page, why: str) -> tuple[Result, str, str]:
        result, name = load(committed(step, page)), committed(step, page).relative_to(ROOT)
        if not result.traces and (traced := terminal.as_elsewhere(step, page)):
            result.traces = traced.traces
        cpus, day = result.environment.usable_cpus, result.began_at[:10]
        said = f"{why} So what follows was measured on another, with {cpus} CPUs, on {day}: {name}"
        self._say("\n" + terminal.paragraph(said))
        return result, said, ""

    def _shown(self, page: Page, result: Result, predicted: str) -> Found:
        seen = ResultView(result)
        found = found_in(page, seen)
        for picture in terminal.pictures(page, result, seen):
            self._show(picture)
        self._pause("Enter: what it means")
        self._say("\n" + terminal.paragraph(terminal.verdict(page, predicted, found)))
        self._say("\n".join(map(terminal.paragraph, terminal.explained(page, found))))
        if page.code:
            self._say(f"In the code:\n{terminal.in_code(page.code)}")
        return found

    def _show_elsewhere(self, step: Step, page: Page) -> None:
        """What a quieter machine had to say, and its picture."""
        if not (told := terminal.elsewhere(step, page)):
            return
        self._say("\n" + terminal.paragraph(told))
        if "timeline" in page.show and (result := terminal.as_elsewhere(step, page)):
            self._pause("Enter: the picture of that machine")
            self._show(TimelinesAsText(result))

    def _show(self, picture: RenderableType) -> None:
        """A screen at a time."""
        with self._console.capture() as captured:
            self._console.print(picture)
        lines = captured.get().splitlines()
        most = self._console.height - 2 if self._is_read else len(lines)
        self._say("")
        for first in range(0, len(lines), most):
            if first:
                self._pause("Enter: go on")
            sys.stdout.write("\n".join([*lines[first : first + most], ""]))
            sys.stdout.flush()

    @property
    def _is_read(self) -> bool:
        """Whether there is somebody at a terminal who reads along."""
        return not self._answers and sys.stdin.isatty() and sys.stdout.isatty()

    def _pause(self, what: str) -> None:
        """Waits for the reader; q stops."""
        if self._is_read:
            click.echo(click.style(f"[{what}] ", dim=True), nl=False)
            if sys.stdin.readline().strip().lower() == "q":
                raise StoppedError(0)

    def _write_page(self) -> None:
        if self._page is not None:
            from under_siege.lesson.lesson_page import lesson_as_html

            write_whole(self._page, lesson_as_html(all_steps(), self._notebook).encode())

    def _what_next(self, step: Step) -> str:
        following = self._notebook.next_of(all_steps())
        on = f" {PROGRAM} lesson goes on with step {following.number}." if following else " That was all of it."
        return "\n" + terminal.paragraph(f"Step {step.number} is done, and kept in {self._notebook.folder}.{on}")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _unfinished(kept: Path) -> Path:
    return kept.with_suffix(".unfinished.json")


def _parts(result: Result) -> list[Any]:
    """All that was measured."""
    return [*result.records, *result.traces, *result.incidents, *(step.record for step in result.steps)]


def _failures(result: Result) -> list[str]:
    """Why some of that could not be measured."""
    return [one.failure.message for one in _parts(result) if one.failure]


def _announced(run: Run) -> str:
    names = f"servers {', '.join(run.servers[:-1])} and {run.servers[-1]}" if len(run.servers) > 1 else ""
    return f"Now it is run here, with {names or f'server {run.servers[0]}'}: some seconds."
