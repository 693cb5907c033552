"""Provide the command `bench.py lesson`: predict, measure, compare and understand, step by step."""

import sys
from pathlib import Path

import click

from common.errors import BadInputError
from under_siege.cli_options import FILE, writable
from under_siege.paths import INVOCATION

DEFAULT_FOLDER = Path("lesson-progress")


@click.command()
@click.argument("args", metavar="[STEP | check FILE]", nargs=-1)
@click.option(
    "--answer", "answers", default="", help="Predictions instead of prompts: one letter, or one for each question."
)
@click.option("--all", "everything", is_flag=True, help="Run all steps.")
@click.option("--list", "listed", is_flag=True, help="List all steps, and show which are done.")
@click.option("--html", type=FILE, help="Write an HTML page with all completed steps.")
@click.option(
    "--keep", type=FILE, default=DEFAULT_FOLDER, show_default=True, help="Folder for progress and raw values."
)
def lesson(args: tuple[str, ...], answers: str, everything: bool, listed: bool, html: Path | None, keep: Path) -> None:
    """Learn how servers run long tasks, step by step.

    STEP is a number; the default is the first step that is not done. Each claim is checked against a measurement on
    your machine. `check FILE` checks an exercise.

    Exit 1 if a measurement failed or an exercise is not solved; else 3 if a claim is undecided; else 0, even if a
    prediction was wrong.
    """
    if args[:1] == ("check",):
        from under_siege.lesson.exercise_check import check

        if len(args) != 2:
            raise BadInputError("check needs one file, for example: check lesson/exercises/to_thread.py")
        sys.exit(check(Path(args[1]), keep))
    if len(args) > 1:
        raise BadInputError(f"{' '.join(args)[:60]!r} is more than one step; use one number or --all")
    from under_siege.lesson.session import LessonSession, overview
    from under_siege.lesson.step import LessonProgress, all_steps, find_step

    progress, steps = LessonProgress(keep), all_steps()
    if listed:
        click.echo(overview(steps, progress))
        return
    if everything:
        chosen = steps
    elif args:
        chosen = [find_step(args[0])]
    else:
        chosen = list(filter(None, [progress.next_of(steps)]))
    if not chosen:
        click.echo(f"All steps are done. To repeat one, run: {INVOCATION} lesson STEP")
    letters = [letter for letter in answers.upper() if letter not in ", "]
    if wrong := next((letter for letter in letters if not "A" <= letter <= "Z"), None):
        raise BadInputError(f"--answer {answers!r}: {wrong!r} is not a letter; use letters such as A or ABCA")
    sys.exit(LessonSession(progress, writable(html) if html else None, letters).run(chosen))
