"""Read the steps and exercises of the lesson from the TOML files in lesson/, and save which steps are completed."""

import fnmatch
import textwrap
import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec

from common.errors import BadInputError
from under_siege.paths import INVOCATION, PACKAGE, ROOT
from under_siege.record.case import Case
from under_siege.record.files import read_limited, write_atomically

LESSON = ROOT / "lesson"
LETTERS = "ABCD"


def fits(selector: str, case: Case) -> bool:
    """Return whether a selector such as `3 digest` or `3_async_threadexecutor 3.14*` matches this case."""
    server, *patterns = selector.split()
    stem, values = case.server.rpartition("/")[2], [str(value) for _, value in case.values]
    return server in (stem, case.server, stem.split("_")[0]) and all(fnmatch.filter(values, each) for each in patterns)


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Claim(_Strict, frozen=True):
    """A claim about the figures of one case. A measured result decides whether it holds."""

    of: str  # case: `3`, or `3 digest` if 3 is measured with several tasks
    # Limits of one metric, in the grammar of `--require`: `ping p50 <= 30ms`, `rate >= 1.1 of base`. Besides,
    # `rate differs from base` and `rate does not differ from base` refer to the significance of a difference.
    requires: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    base: str = ""  # another case, a figure such as `capacity ceiling`, `task` (its time without a server), or `users`
    name: str = ""  # name that answers use in `when`
    claim: str = ""  # the claim as a clause, for example after `whether`
    says: str = ""  # text if the claim holds, with {of}, {base} and {times}; empty for a claim that only answers use
    # Text if the claim does not hold.
    otherwise: str = "On this machine it is not true that {claim} ({figures})."


class Choice(_Strict, frozen=True):
    """An answer to a question. The answer is right if all claims in `when` hold."""

    text: str
    when: tuple[str, ...] = ()


class Run(_Strict, frozen=True):
    """A measurement: a drill if it has `faults`, a capacity search if it has `goals`, or else sieges and traces."""

    servers: tuple[str, ...]
    strategies: tuple[str, ...] = ()  # if given, `servers` is an application in lesson/ whose route moves
    path: str = ""  # path of that route
    ping: str = ""  # path of its health check
    tasks: tuple[str, ...] = ("primes",)
    only: tuple[str, ...] = ()  # selectors of the cases to run; empty for all cases
    users: tuple[int, ...] = (8,)
    workers: tuple[int, ...] = ()
    pythons: tuple[str, ...] = ()
    time_s: float = 0.0  # duration of each siege; 0 for no siege
    rounds: int = 3
    requests: int = 0  # number of traced requests; 0 for no trace
    faults: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()

    @property
    def turns(self) -> int:
        """Return the approximate number of measurements."""
        if self.faults:
            return len(self.servers) * (1 + self.rounds * len(self.faults))
        cases = len(self.only) or len(self.strategies) or len(self.servers) * len(self.tasks) * len(self.users)
        rounds = self.rounds if self.time_s else 0
        return cases * (rounds + 1 if self.requests else rounds)


class Excerpt(_Strict, frozen=True):
    """An excerpt of a file. It begins with the first line that contains the text in `line`."""

    file: str
    line: str
    lines: int = 1
    says: str = ""

    def excerpt(self) -> str:
        place = PACKAGE.parent if self.file.startswith(f"{PACKAGE.name}/") else ROOT
        lines = (place / self.file).read_text(encoding="utf-8").splitlines()
        first = next(index for index, line in enumerate(lines) if self.line in line)
        return textwrap.dedent("\n".join(lines[first : first + self.lines]))


class Question(_Strict, frozen=True, rename={"text": "question"}):
    """A question with its answers, and the measurement and claims that decide it."""

    text: str
    answers: tuple[Choice, ...]
    usual: str  # letter of the right answer on a machine with two or more CPUs
    claims: tuple[Claim, ...]
    run: Run | None = None
    needs: tuple[str, ...] = ()  # such as `cpus>=2` or `redis-server`; if one is missing, a committed result is shown
    result: str = ""  # path of the committed result, if the question does not use that of the step
    show: tuple[str, ...] = ("timeline", "table")
    columns: tuple[str, ...] = ("rate", "ping p99")  # columns of the table
    pictures: tuple[str, ...] = ("timeline",)  # pictures on the HTML page, named as in `report --picture`
    why: str = ""
    code: tuple[Excerpt, ...] = ()

    @property
    def letters(self) -> str:
        return LETTERS[: len(self.answers)]

    def is_about(self, case: Case) -> bool:
        """Return whether any claim is about the case or uses it as a reference."""
        return any(fits(selector, case) for claim in self.claims for selector in (claim.of, claim.base) if selector)

    def answer(self, letter: str) -> str:
        return " ".join(self.answers[LETTERS.index(letter)].text.split())


class LessonStep(msgspec.Struct, frozen=True):
    name: str  # stem of the file, which begins with the number of the step
    title: str
    questions: tuple[Question, ...]  # more than one only in step 12
    exercise: str

    @property
    def number(self) -> int:
        return int(self.name.split("_")[0])


def all_steps() -> list[LessonStep]:
    return [read_step(path) for path in sorted(LESSON.glob("[0-9]*.toml"))]


def find_step(name: str) -> LessonStep:
    """Return the step with this number (`3`) or name (`03_threads_and_the_gil`), or raise BadInputError."""
    steps = all_steps()
    for step in steps:
        if name in (step.name, str(step.number), f"{step.number:02}"):
            return step
    raise BadInputError(f"no step {name[:60]!r}: expected 1 to {steps[-1].number}; see {INVOCATION} lesson --list")


def read_step(path: Path) -> LessonStep:
    """Read a step from its file; raise BadInputError if the file is invalid."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        title, exercise = data.pop("title"), data.pop("exercise")
        questions = msgspec.convert(data.pop("pages", None) or [data], tuple[Question, ...])
    except (ValueError, KeyError) as error:
        raise BadInputError(f"{path} is not a step of the lesson: {error}") from None
    return LessonStep(path.stem, title, questions, exercise)


def committed_result(step: LessonStep, question: Question) -> Path:
    """Return the path of the committed result, which is shown if the question can't be measured here."""
    own = ROOT / "results" / "lesson" / f"{step.name}.json.gz"
    return ROOT / question.result if question.result and (question.run is None or not own.exists()) else own


class Exercise(_Strict, frozen=True):
    """How to measure a solution to an exercise, and which claims to check in addition to the usual checks."""

    beside: str = "1"  # the strategy to compare with
    task: str = "primes"
    users: int = 4
    workers: int | None = None  # number of workers of each server; None for its default
    hint: str = ""
    claims: tuple[Claim, ...] = ()


@cache
def all_exercises() -> dict[str, Exercise]:
    """Return all exercises by file stem."""
    return msgspec.toml.decode((LESSON / "exercises" / "exercises.toml").read_bytes(), type=dict[str, Exercise])


class CompletedStep(msgspec.Struct):
    predicted: str  # a letter for each question
    right: str  # letters of the right answers; `?` if undecided or if no answer is right
    result: str  # file with the raw values; empty if only a committed result was shown
    instead: str = ""  # reason why a committed result was shown
    command: list[str] = []


class _ProgressData(msgspec.Struct):
    steps: dict[str, CompletedStep] = {}
    schema: int = 1


class LessonProgress:
    """The user's progress: a folder with a result for each step, and a list of the completed steps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "progress.json"
        self._data = _ProgressData()
        if self._file.exists():
            try:
                self._data = msgspec.json.decode(read_limited(self._file, (b"{",)), type=_ProgressData)
            except (OSError, ValueError) as error:
                raise BadInputError(f"{self._file} is not a progress file: {error}; remove it to start again") from None
        self.completed = self._data.steps

    def next_of(self, steps: list[LessonStep]) -> LessonStep | None:
        return next((step for step in steps if step.name not in self.completed), None)

    def result_file(self, step: LessonStep) -> Path:
        """Return the file for the raw values of a step, and create its folder if it is missing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{step.name}.json"

    def save(self, step: LessonStep, completed: CompletedStep) -> None:
        """Mark a step as completed; raise UnwritableError if the file can't be written."""
        self.result_file(step)
        self.completed[step.name] = completed
        write_atomically(self._file, msgspec.json.format(msgspec.json.encode(self._data), indent=2) + b"\n")
