"""bench.py lesson check FILE: judge a student's server, in words for a beginner."""

import sys
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
from rich.text import Text

from common.errors import BadInputError
from under_siege import formatting
from under_siege.analysis.summary import Latency, Summary
from under_siege.checks.verdict import FAILED, Reason
from under_siege.lesson import terminal
from under_siege.lesson.assertions import NOT_HERE, UNDECIDED, Judged, judged
from under_siege.lesson.explanations import NOISE, OF_THE_MACHINE, finding
from under_siege.lesson.lesson_figures import ResultView
from under_siege.lesson.lesson_progress import LessonProgress
from under_siege.lesson.step import Exercise, exercise_of
from under_siege.model.case import Case
from under_siege.model.record import Result
from under_siege.model.result_file import legible
from under_siege.paths import PROGRAM
from under_siege.run.plan import Plan, make_plan
from under_siege.run.session import run_plan
from under_siege.targets.strategies import find_strategy, read_strategy, strategies_suite

SOLVED, NOT_SOLVED, NOT_DECIDED = 0, 1, 3
TIME_S, LEAST_ROUNDS, MOST_ROUNDS, SEED = 1.5, 2, 5, 1
READY_WITHIN_S = 8.0
COLUMNS = ("rate", "p50", "ping p50")


def check(file: Path, keep: Path) -> int:
    """Measure the server beside a known one, print what was found, and return the exit code.

    Args:
        keep: the folder for raw values; created if it is missing.

    Raises:
        BadInputError: the file is not a server, or does not start.
    """
    named = exercise_of(file)
    exercise = named or Exercise()
    plan = plan_for(file, exercise)
    name = _name_in(plan, file)
    keep.mkdir(parents=True, exist_ok=True)
    out = keep / f"check-{legible(file.stem)}.json"
    with LessonProgress(plan.turns()) as progress:
        words = [PROGRAM, "lesson", "check", str(file)]
        result, stopped_by, _ = run_plan(plan, out, progress, words, wanted=partial(_wanted, name, exercise))
    if stopped_by:
        return 128 + stopped_by
    _refuse_what_does_not_start(file, name, result)
    found = Checked(name, exercise, ResultView(result), is_exercise=named is not None)
    console = terminal.console()
    for line in found.told():
        console.print(Text(line), soft_wrap=True)
    console.print(Text(f"Raw values: {out}", style="dim"), soft_wrap=True)
    return found.exit_code


def plan_for(file: Path, exercise: Exercise) -> Plan:
    """Return the plan: the server, the one of its exercise, and the ceiling; raises BadInputError like `check`."""
    target = replace(read_strategy(file), ready_within_s=READY_WITHIN_S)
    beside = find_strategy(exercise.beside)
    others = () if beside.path == target.path else (beside,)
    suite = replace(strategies_suite([exercise.beside]), targets=(target, *others))
    axes = {
        "task": (exercise.task,),
        "users": (exercise.users,),
        "workers": (exercise.workers,) if exercise.workers else (),
        "python": (sys.executable,),
    }
    return make_plan(suite, axes, time_s=TIME_S, rounds=MOST_ROUNDS, seed=SEED)


def _wanted(name: str, exercise: Exercise, result: Result) -> Collection[Case]:
    """Return the cases of another round: all, until the exercise is decided."""
    if any(record.failure for record in result.records):
        return ()
    is_decided = Checked(name, exercise, ResultView(result), is_exercise=True).exit_code != NOT_DECIDED
    if is_decided and max(record.round for record in result.records) >= LEAST_ROUNDS:
        return ()
    return [record.case for record in result.records]


def _name_in(plan: Plan, file: Path) -> str:
    return next(name for name, target in plan.targets.items() if target.path == file.resolve())


def _refuse_what_does_not_start(file: Path, name: str, result: Result) -> None:
    for record in result.records:
        if record.server == name and record.failure and record.ready_s is None:
            raise BadInputError(f"{file} does not start: {record.failure.message}")


class Checked:
    """A server after its sieges: its faults, the claims of its exercise, and both in words."""

    def __init__(self, name: str, exercise: Exercise, seen: ResultView, *, is_exercise: bool) -> None:
        self._name, self._exercise, self._seen, self._is_exercise = name, exercise, seen, is_exercise
        self._case: Summary = next(case for case in seen.comparison.cases if case.server == name)
        excused = self._excused()
        self.against = [one for one in self._case.reasons if one.code not in excused]
        self.doubts = [one for one in self._case.reasons if one.code in excused]
        claims = () if self._case.verdict == FAILED else exercise.claims
        own = [msgspec.structs.replace(claim, of=name) for claim in claims]
        # A suspect server can miss a claim, too. It can't solve the exercise, whatever its figures are.
        self.claims = [judged(claim, seen, trusted=True) for claim in own]

    def _excused(self) -> set[str]:
        """Return the codes of reasons that are not the server's fault."""
        rounds = self._seen.comparison.rounds[self._seen.comparison.cases.index(self._case)]
        has_wrong_answers = any(one.attempts for one in rounds)
        return set(OF_THE_MACHINE) - ({"no_transactions"} if has_wrong_answers else set())

    @property
    def exit_code(self) -> int:
        """Return 0 if there is no fault and all claims hold, 1 if not, 3 if that is undecided."""
        outcomes = {one.outcome for one in self.claims}
        if self.against or NOT_HERE in outcomes:
            return NOT_SOLVED
        doubts = {one.code for one in self.doubts} - NOISE
        return NOT_DECIDED if doubts or UNDECIDED in outcomes else SOLVED

    def told(self) -> Iterator[str]:
        """Yield the lines of the report."""
        if self._case.verdict != FAILED:
            yield from self._figures()
        yield f"\n{self._verdict()}"
        yield from (terminal.paragraph(f"✗ {_without_round(one)}.") for one in self.against)
        yield from map(_in_a_line, self.claims)
        if self.exit_code == NOT_DECIDED:
            yield from (
                terminal.paragraph(f"? {OF_THE_MACHINE[one.code]}")
                for one in self.doubts[:1]
                if one.code in OF_THE_MACHINE
            )
        if self.against:
            yield terminal.paragraph(f"What that means: {finding(self.against[0].code).means}")
        if self.exit_code == NOT_SOLVED and (hint := self._hint()):
            yield terminal.paragraph(f"Hint: {hint}")

    def _figures(self) -> Iterator[str]:
        yield terminal.paragraph(
            f"{self._exercise.users} users sent requests for the task {self._exercise.task}, one after the other, and "
            "pings were sent meanwhile. Half of the waits and pings were shorter than the usual one. The ceiling is "
            "what the same users reach without a server."
        )
        rows = [("", *(terminal.COLUMNS[what][0] for what in COLUMNS)), *map(_row, self._seen.comparison.cases)]
        rows.append(("ceiling", _rate(self._case.ceiling_per_s), "", ""))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for first, *others in rows:
            cells = (text.rjust(width) for text, width in zip(others, widths[1:], strict=True))
            yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()

    def _verdict(self) -> str:
        if self.exit_code == SOLVED:
            return "Solved: no fault was found." if self._is_exercise else "No fault was found."
        if self.exit_code == NOT_DECIDED:
            return "Not decided: no fault was found, but this run does not prove that there is none."
        so_far = "Not solved yet" if self._is_exercise else "Fault found"
        return f"{so_far}: {finding(self.against[0].code).short}." if self.against else f"{so_far}."

    def _hint(self) -> str:
        """Return the hint of the exercise, or that of the first fault."""
        return self._exercise.hint or (finding(self.against[0].code).hint if self.against else "")


def _row(case: Summary) -> tuple[str, str, str, str]:
    mean = case.rate_per_s.mean if case.rate_per_s else None
    return case.server, _rate(mean), _usual(case.response_s), _usual(case.ping_s)


def _rate(per_s: float | None) -> str:
    return f"{formatting.rate(per_s)}/s" if per_s else "?"


def _usual(waits: Latency | None) -> str:
    if waits is None:
        return "?"
    return f"> {formatting.seconds(waits.max)}" if waits.p50 is None else formatting.seconds(waits.p50)


def _in_a_line(one: Judged) -> str:
    told = f"{one.sentence[0].upper()}{one.sentence[1:]}"
    because = f" is not decided: {one.reason or one.possible}." if one.outcome == UNDECIDED else ""
    return terminal.paragraph(f"{terminal.MARKS.get(one.outcome, '?')} {told}{because}")


def _without_round(reason: Reason) -> str:
    before, colon, message = reason.message.partition(": ")
    return message if colon and before.startswith("round ") else reason.message
