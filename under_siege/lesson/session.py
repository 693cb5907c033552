"""Run the steps of the lesson: ask for predictions, measure, show the result, and save the progress."""

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from common.errors import BadInputError
from under_siege.lesson.measurement import LessonProgressBar, measure, missing_here
from under_siege.lesson.step import CompletedStep, LessonProgress, LessonStep, Question, all_steps, committed_result
from under_siege.lesson.view import Answered, asked, committed_traces, exercise, page
from under_siege.paths import INVOCATION, PROGRAM, ROOT
from under_siege.record.files import write_atomically
from under_siege.record.result import Result, load
from under_siege.show.formats import html
from under_siege.show.formats.table import renderable
from under_siege.show.view import View

FAILED, NOT_DECIDED = 1, 3
WIDTH = 80  # maximum width of the output, in characters


def lesson_console() -> Console:
    console = Console()
    return Console(width=min(WIDTH, console.width) if console.is_terminal else WIDTH, highlight=False)


class LessonSession:
    """Run steps, with predictions from `answers` or, if it is empty, from the terminal."""

    def __init__(self, progress: LessonProgress, html: Path | None, answers: Sequence[str]) -> None:
        self._progress, self._html = progress, html
        self._answers, self._is_asking = list(answers), not answers
        self._console = lesson_console()
        self._exit_codes = {0}

    def run(self, steps: Sequence[LessonStep]) -> int:
        self._check_answers(steps)
        for step in steps:
            try:
                self._step(step)
            except click.exceptions.Exit as stopped:
                self._print(f"Stopped at step {step.number}. To continue, run: {INVOCATION} lesson {step.number}")
                return stopped.exit_code
            if self._html is not None:
                write_atomically(self._html, html.rendered(page(all_steps(), self._progress)).encode())
            following = self._progress.next_of(all_steps())
            next_step = (
                f"For step {following.number}, run: {INVOCATION} lesson" if following else "This was the last step."
            )
            self._print_wrapped(f"Step {step.number} is done. Its results are in {self._progress.folder}. {next_step}")
        return FAILED if FAILED in self._exit_codes else max(self._exit_codes)

    def _check_answers(self, steps: Sequence[LessonStep]) -> None:
        questions = [(step, question) for step in steps for question in step.questions]
        if len(self._answers) == 1:
            self._answers *= len(questions)
        if self._answers and len(self._answers) != len(questions):
            count = f"{len(self._answers)} letters for {len(questions)} questions"
            raise BadInputError(f"--answer has {count}; use one letter, or one for each question")
        for (step, question), letter in zip(questions, self._answers, strict=False):  # no letters without --answer
            if letter not in question.letters:
                raise BadInputError(f"--answer {letter}: step {step.number} accepts {', '.join(question.letters)}")

    def _step(self, step: LessonStep) -> None:
        predictions = right = instead = file = ""
        for number, question in enumerate(step.questions, 1):
            self._show(asked(step, question), is_titled=True)
            predicted = self._prediction(question)
            result, instead, result_file = self._result_for(step, question)
            answered = Answered(step, question, predicted, result, instead)
            self._explain(answered)
            if answered.decision.has_undecided:
                self._exit_codes.add(NOT_DECIDED)
            if number < len(step.questions):
                self._pause("Enter: the next question")
            predictions, right = predictions + predicted, right + (answered.decision.right or "?")
            file = file or result_file
        self._show(exercise(step), is_titled=True)
        self._progress.save(step, CompletedStep(predictions, right, file, instead))

    def _explain(self, answered: Answered) -> None:
        """Show what was measured and, after a pause, what it means."""
        view = answered.view()
        _, *meaning = view.headline  # the user has read the question
        self._show(replace(view, headline=()))
        self._pause("Enter: what it means")
        self._show(View(view.title, headline=meaning))
        if elsewhere := answered.committed():
            self._show(replace(elsewhere, figures=()))
            if elsewhere.figures:
                self._pause("Enter: the chart from that machine")
                self._show(replace(elsewhere, headline=()))

    def _prediction(self, question: Question) -> str:
        if not self._is_asking:
            letter = self._answers.pop(0)
            self._print(f"Your prediction: {letter}")
            return letter
        letters = ", ".join(question.letters)
        while True:
            click.echo(f"Your prediction ({letters}; q stops here): ", nl=False)
            line = sys.stdin.readline()
            if not line:
                raise BadInputError(f"no prediction on stdin: expected one of {letters}; or use --answer")
            letter = line.strip().upper()
            if letter == "Q":
                raise click.exceptions.Exit(0)
            if len(letter) == 1 and letter in question.letters:
                return letter
            self._print(f"{letter[:20]!r} is not an answer; expected one of {letters}.")

    def _result_for(self, step: LessonStep, question: Question) -> tuple[Result, str, str]:
        """Return a result, the reason if it could not be measured here, and its file name if it was measured here."""
        if question.run is None:
            self._print(f"\nThis was measured earlier: {question.result}")
            return load(committed_result(step, question)), "", ""
        if missing := missing_here(question):
            return self._committed(step, question, f"This machine {missing}.")
        self._print(
            f"\nMeasuring on this machine (servers: {', '.join(question.run.servers)}). This takes a few seconds."
        )
        file = self._progress.result_file(step)
        unfinished = file.with_suffix(".unfinished.json")  # the old file remains until the new file is complete
        result, problem = self._measured(step, question, unfinished)
        if problem or (result and _failures(result)):
            self._exit_codes.add(FAILED)
        if result is None or problem:
            return self._committed(step, question, f"It could not be measured on this machine: {problem.rstrip('.')}.")
        if unfinished.exists():  # it is missing if the disk was full
            unfinished.replace(file)
        return result, "", file.name

    def _measured(self, step: LessonStep, question: Question, out: Path) -> tuple[Result | None, str]:
        """Return the result, if there is one, and the reason if nothing could be measured."""
        run = question.run
        assert run is not None
        with LessonProgressBar(run.turns) as progress_bar:
            try:
                command = [PROGRAM, "lesson", str(step.number)]
                result, stopped_by = measure(question, out, progress_bar, command, self._print)
            except BadInputError as error:
                if not run.pythons:  # after this error, only a question with `pythons` falls back to a committed result
                    raise
                return None, str(error)
        if stopped_by:
            raise click.exceptions.Exit(128 + stopped_by)
        failures = _failures(result)
        return result, "" if len(failures) < len(_parts(result)) else (failures or ["nothing was measured"])[0]

    def _committed(self, step: LessonStep, question: Question, reason: str) -> tuple[Result, str, str]:
        path = committed_result(step, question)
        result = load(path)
        if not result.traces and (traced := committed_traces(step, question)):
            result.traces = traced.traces
        cpus, day = result.environment.usable_cpus, result.began_at[:10]
        file = path.relative_to(ROOT)
        reason += f" The results below were measured on another machine, with {cpus} CPUs, on {day} ({file})."
        self._print_wrapped(reason)
        return result, reason, ""

    def _show(self, view: View, *, is_titled: bool = False) -> None:
        """Print the view; on a terminal, one screen at a time."""
        with self._console.capture() as captured:
            self._console.print(renderable(view))
        lines = [*([view.title] if is_titled else []), *(line.rstrip() for line in captured.get().splitlines())]
        height = self._console.height - 2 if self._is_interactive else len(lines)
        self._print("")
        for first in range(0, len(lines), height):
            if first:
                self._pause("Enter: continue")
            sys.stdout.write("\n".join([*lines[first : first + height], ""]))
            sys.stdout.flush()

    @property
    def _is_interactive(self) -> bool:
        return self._is_asking and sys.stdin.isatty() and sys.stdout.isatty()

    def _pause(self, prompt: str) -> None:
        """On a terminal, wait until the user presses Enter; exit if the user enters `q`."""
        if self._is_interactive:
            click.echo(click.style(f"[{prompt}] ", dim=True), nl=False)
            if sys.stdin.readline().strip().lower() == "q":
                raise click.exceptions.Exit(0)

    def _print_wrapped(self, text: str) -> None:
        self._print(f"\n{textwrap.fill(text, WIDTH - 2)}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _failures(result: Result) -> list[str]:
    return [part.failure.message for part in _parts(result) if part.failure]


def _parts(result: Result) -> list[Any]:
    return [*result.records, *result.traces, *result.incidents, *(step.record for step in result.steps)]


def overview(steps: Sequence[LessonStep], progress: LessonProgress) -> str:
    """Return a line for each step, with its state and prediction."""
    lines = []
    for step in steps:
        line = f"{step.number:2}        {step.title}"
        if completed := progress.completed.get(step.name):
            usual = "".join(question.usual for question in step.questions)
            right = f"usually {usual}" if "?" in completed.right else f"it was {completed.right}"
            line = f"{step.number:2}  done  {step.title:<30}  you said {completed.predicted}, {right}"
        lines.append(line)
    return "\n".join(lines)
