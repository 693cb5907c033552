"""Provide the command `bench.py lesson`: predict, measure, compare and understand, step by step."""

import sys
from pathlib import Path

import click

from common.errors import BadInputError
from under_siege.cli_options import FILE, Documented, writable
from under_siege.paths import INVOCATION

DEFAULT_FOLDER = Path("lesson-progress")


ANSWER = "Predictions instead of prompts: a letter for each question."
KEEP = click.option(
    "--keep", metavar="FOLDER", type=FILE, default=DEFAULT_FOLDER, show_default=True, help="Progress and raw values."
)
EXAMPLES = {
    "lesson": "the next step",
    "lesson 3 --answer A": "step 3, with a prediction",
    "lesson check FILE": "an exercise",
}
CHECK_EXAMPLES = {
    "lesson check lesson/exercises/to_thread.py": "an exercise",
    "lesson check to_thread.py --keep /tmp/ann": "a student's copy",
}


def _complete_step(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the numbers of the steps, and the subcommand, that begin like this."""
    from under_siege.lesson.step import all_steps

    return [word for word in ("check", *(str(step.number) for step in all_steps())) if word.startswith(incomplete)]


@click.command(cls=Documented, examples=EXAMPLES)
@click.argument("steps", metavar="[STEP]", nargs=-1, shell_complete=_complete_step)
@click.option("--answer", "answers", metavar="LETTERS", default="", show_default=False, help=ANSWER)
@click.option("--all", "everything", is_flag=True, help="Run all steps.")
@click.option("--list", "listed", is_flag=True, help="List all steps, and show which are done.")
@click.option("--html", metavar="FILE", type=FILE, help="Report: a page with all completed steps.")
@KEEP
def lesson(steps: tuple[str, ...], answers: str, everything: bool, listed: bool, html: Path | None, keep: Path) -> None:
    """Learn how servers run long tasks, step by step.

    STEP is a number; the default is the first step that is not done. Each claim is checked against a measurement on
    your machine.

    Exit 1 if a measurement failed; else 3 if a claim is undecided; else 0, even if a prediction was wrong.
    """
    if len(steps) > 1:
        raise BadInputError(f"{' '.join(steps)[:60]!r} is more than one step; use one number or --all")
    from under_siege.lesson.session import LessonSession, overview
    from under_siege.lesson.step import LessonProgress, all_steps, find_step

    progress, known = LessonProgress(keep), all_steps()
    if listed:
        click.echo(overview(known, progress))
        return
    if everything:
        chosen = known
    elif steps:
        chosen = [find_step(steps[0])]
    else:
        chosen = list(filter(None, [progress.next_of(known)]))
    if not chosen:
        click.echo(f"All steps are done. To repeat one, run: {INVOCATION} lesson STEP")
    letters = [letter for letter in answers.upper() if letter not in ", "]
    if wrong := next((letter for letter in letters if not "A" <= letter <= "Z"), None):
        raise BadInputError(f"--answer {answers!r}: {wrong!r} is not a letter; use letters such as A or ABCA")
    sys.exit(LessonSession(progress, writable(html) if html else None, letters).run(chosen))


@click.command(cls=Documented, examples=CHECK_EXAMPLES)
@click.argument("file", type=FILE)
@KEEP
def check_exercise(file: Path, keep: Path) -> None:
    """Check the solution of an exercise of the lesson.

    FILE is a server of yours. Exit 1 if the exercise is not solved; else 3 if this is undecided; else 0.
    """
    from under_siege.lesson.exercise_check import check

    sys.exit(check(file, keep))
