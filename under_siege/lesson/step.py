"""The steps of the lesson, as their files in lesson/ tell them: question, answers, what is run, claims, exercise."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from common.errors import BadInputError
from under_siege.paths import PROGRAM, ROOT

LESSON = ROOT / "lesson"
LETTERS = "ABCD"


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A word that a file has by mistake is no silence."""


class Claim(_Strict, frozen=True, rename={"is_": "is"}):
    """Something that a result can bear out, or not: a figure of a case, and how it is beside another."""

    what: str  # a figure, as under_siege.lesson.lesson_figures calls them
    of: str  # the case: `3`, or `3 digest` where 3 takes part with several tasks
    # `same`, `more`, `less`, `about 2 times`, `at least 3 times`, `at most 2 times`; `undecided` if the interval
    # contains 1, else `decided`; for counts `there`, `none`, `identical`, `different`.
    is_: str
    against: str = ""  # another case, `task` (its time alone), `users`, `cpus`, or an amount such as `50 ms`
    name: str = ""  # used by answers
    claim: str = ""  # in words
    says: str = ""  # if it holds, with {of}, {against} and {times}; empty if only answers use it
    otherwise: str = ""  # if it does not hold


class Answer(_Strict, frozen=True):
    """An answer to choose from; it is right if all these claims hold."""

    text: str
    when: tuple[str, ...] = ()


class Run(_Strict, frozen=True):
    """What a step runs: with `faults` a drill, with `goals` a capacity search, without `time_s` a trace."""

    servers: tuple[str, ...]
    tasks: tuple[str, ...] = ("primes",)
    only: tuple[str, ...] = ()  # of the cases that these make; all where there is none
    users: tuple[int, ...] = (8,)
    workers: tuple[int, ...] = ()
    pythons: tuple[str, ...] = ()
    time_s: float = 0.0  # of each siege
    rounds: int = 3
    requests: int = 0  # sent at once for a trace; none without
    faults: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()


class Code(_Strict, frozen=True):
    """The lines that matter: in this file, from the first one that has these words."""

    file: str
    line: str
    lines: int = 1
    says: str = ""  # what is to be seen there


class Page(_Strict, frozen=True):
    """A question, and all that answers it."""

    question: str
    answers: tuple[Answer, ...]
    usual: str  # the letter of the answer that is right on a machine with two CPUs or more
    claims: tuple[Claim, ...]
    run: Run | None = None
    needs: tuple[str, ...] = ()  # `cpus>=2`, `python>=3.14`, `redis-server`: without it the committed result is shown
    result: str = ""  # that result, where there is none of this very step
    show: tuple[str, ...] = ("timeline", "table")
    columns: tuple[str, ...] = ("rate", "ping p99")  # of the table
    pictures: tuple[str, ...] = ("timeline",)  # of the page, as `report --picture` calls them
    why: str = ""
    code: tuple[Code, ...] = ()

    def right(self, letter: str) -> Answer:
        """The answer with that letter."""
        return self.answers[LETTERS.index(letter)]

    @property
    def letters(self) -> str:
        """Those of its answers."""
        return LETTERS[: len(self.answers)]


class Step(msgspec.Struct, frozen=True):
    """One of the lesson's steps."""

    name: str  # the stem of its file
    title: str
    pages: tuple[Page, ...]  # one, but for the detective
    exercise: str

    @property
    def number(self) -> int:
        """Its place."""
        return int(self.name.split("_")[0])


def all_steps() -> list[Step]:
    """In their order."""
    return [read_step(path) for path in sorted(LESSON.glob("[0-9]*.toml"))]


def find_step(name: str) -> Step:
    """A step by number (`3`) or name (`03_threads_and_the_gil`); raises BadInputError: there is none."""
    steps = all_steps()
    for step in steps:
        if name in (step.name, str(step.number), f"{step.number:02}"):
            return step
    raise BadInputError(f"no step {name[:60]!r}: expected 1 to {steps[-1].number}; see {PROGRAM} lesson --list")


def read_step(path: Path) -> Step:
    """What the file says; raises BadInputError: that is no step."""
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
        title, exercise = told.pop("title"), told.pop("exercise")
        pages = tuple(msgspec.convert(page, Page) for page in told.pop("pages", None) or [told])
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError) as error:
        raise BadInputError(f"{path} is no step of the lesson: {error}") from None
    for page in pages:
        _check(path, page)
    return Step(path.stem, title, pages, exercise)


def _check(path: Path, page: Page) -> None:
    """Raises BadInputError where its parts do not fit together."""
    known = {claim.name for claim in page.claims}
    wanted: set[Any] = {name for answer in page.answers for name in answer.when}
    if not wanted <= known:
        raise BadInputError(f"{path}: an answer stands on {sorted(wanted - known)}: expected names of its claims")
    if page.usual not in page.letters or len(page.usual) != 1:
        raise BadInputError(f"{path}: usual = {page.usual!r}: expected one of {', '.join(page.letters)}")
    if page.run is None and not page.result:
        raise BadInputError(f"{path}: nothing is run and no result is named: expected [run] or result")


def committed(step: Step, page: Page) -> Path:
    """The result that comes with the project, for machines that lack something: its own, or one that has it in it."""
    own = ROOT / "results" / "lesson" / f"{step.name}.json"
    return ROOT / page.result if page.result and (page.run is None or not own.exists()) else own


def lines_of(code: Code) -> str:
    """The lines as they stand in the file, without what they are indented by; raises BadInputError: it has none."""
    lines = (ROOT / code.file).read_text(encoding="utf-8").splitlines()
    found = next((number for number, line in enumerate(lines) if code.line in line), None)
    if found is None:
        raise BadInputError(f"{code.file} has no line with {code.line!r}")
    taken = lines[found : found + code.lines]
    margin = min(len(line) - len(line.lstrip()) for line in taken if line.strip())
    return "\n".join(line[margin:] for line in taken)


TOLD = LESSON / "exercises" / "exercises.toml"


class Exercise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a server is measured, and what has to be true of it beside that nothing is flagged."""

    beside: str = "1"  # a strategy that is measured, too
    task: str = "primes"
    users: int = 4
    workers: int | None = None  # of both; None: as many as they have by themselves
    hint: str = ""
    claims: tuple[Claim, ...] = ()


@cache
def all_exercises() -> dict[str, Exercise]:
    """By the stems of their files; raises BadInputError: the file is not right."""
    try:
        return msgspec.convert(tomllib.loads(TOLD.read_text(encoding="utf-8")), dict[str, Exercise])
    except (OSError, ValueError) as error:
        raise BadInputError(f"{TOLD} has no exercises: {error}") from None


def exercise_of(file: Path) -> Exercise | None:
    """The exercise of that name, wherever a copy of it is; None if it is a server of another name."""
    return all_exercises().get(file.stem)
