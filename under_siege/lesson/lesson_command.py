"""The command bench.py lesson: predict, measure, compare and understand, step by step."""

import sys
from pathlib import Path

import click

from common.errors import BadInputError
from under_siege.cli_options import FILE, writable
from under_siege.paths import PROGRAM


@click.command()
@click.argument("words", metavar="[STEP | check FILE]", nargs=-1)
@click.option("--answer", "answers", default="", help="Predictions without being asked: one letter, or one a question.")
@click.option("--all", "everything", is_flag=True, help="From the first step to the last.")
@click.option("--list", "listed", is_flag=True, help="Which steps there are, and which are done.")
@click.option("--html", type=FILE, help="A page that grows step by step.")
@click.option(
    "--keep",
    type=FILE,
    default=Path("lesson-progress"),
    show_default=True,
    help="The folder of progress and raw values.",
)
def lesson(words: tuple[str, ...], answers: str, everything: bool, listed: bool, html: Path | None, keep: Path) -> None:
    """Learn how servers run long tasks: predict, run it here and now, look, and see why.

    STEP is a number; the default is the first step that is not done. Every claim is decided by what was just
    measured on your machine. `check FILE` checks an exercise.

    Exit 1 if something could not be run; else 3 if something is undecided; else 0, whatever you predicted.
    """
    if words[:1] == ("check",):
        sys.exit(_check(words[1:], keep))
    if len(words) > 1:
        raise BadInputError(f"{' '.join(words)[:60]!r} is more than one step: expected one number, or --all")
    from under_siege.lesson.lesson_session import LessonSession, overview
    from under_siege.lesson.step import LessonProgress, all_steps, find_step

    progress, steps = LessonProgress(keep), all_steps()
    if listed:
        click.echo(overview(steps, progress))
        return
    following = progress.next_of(steps)
    chosen = steps if everything else [find_step(words[0])] if words else [following] if following else []
    if not chosen:
        click.echo(f"Done: that was all of it. {PROGRAM} lesson STEP repeats a step.")
    letters = [letter for letter in answers.upper() if letter not in ", "]
    if wrong := next((letter for letter in letters if not "A" <= letter <= "Z"), None):
        raise BadInputError(f"--answer {answers!r}: {wrong!r} is no letter: expected one such as A, or ABCA")
    sys.exit(LessonSession(progress, writable(html) if html else None, letters).run(chosen))


def _check(files: tuple[str, ...], keep: Path) -> int:
    from under_siege.lesson.exercise_check import check
    from under_siege.lesson.step import all_exercises

    if len(files) != 1:
        names = ", ".join(all_exercises())
        raise BadInputError(f"check takes one file: expected such as lesson/exercises/NAME.py, NAME being {names}")
    return check(Path(files[0]), keep)
