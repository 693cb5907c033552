"""Check a student's server and explain the result for beginners (`bench.py lesson check FILE`)."""

import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from common.errors import BadInputError
from under_siege import formatting
from under_siege.formatting import legible
from under_siege.judge.stopping_rule import Decision
from under_siege.judge.summary import Latency
from under_siege.judge.verdict_rules import FAILED
from under_siege.lesson.claims import NOT_HERE, UNDECIDED, ClaimResult, ResultView, decide
from under_siege.lesson.measurement import LessonProgressBar
from under_siege.lesson.session import lesson_console
from under_siege.lesson.step import LESSON, Exercise, all_exercises
from under_siege.lesson.view import COLUMNS, MARKS
from under_siege.measure.plan import Plan, make_plan
from under_siege.measure.racing import Racing
from under_siege.measure.rounds import run_plan
from under_siege.measure.session import Reporting
from under_siege.paths import PROGRAM
from under_siege.record.case import Value
from under_siege.record.result import Result
from under_siege.show.formats.table import renderable
from under_siege.show.view import Cell, Column, Paragraph, Row, Table, View
from under_siege.suite.server_files import find_strategy, read_strategy, strategies_suite

SOLVED, NOT_SOLVED, NOT_DECIDED = 0, 1, 3
TIME_S, LEAST_ROUNDS, MOST_ROUNDS, SEED = 1.5, 2, 5, 1
READY_WITHIN_S = 8.0
NOISE = {"wide_interval", "busy_machine"}  # codes of reasons to ignore, because claims have their own intervals
_TEXTS = tomllib.loads((LESSON / "exercises" / "faults.toml").read_text(encoding="utf-8"))
OF_THE_MACHINE: dict[str, str] = _TEXTS["machine"]  # texts by code, for reasons that are not the server's fault
FAULTS: dict[str, dict[str, str]] = _TEXTS["faults"]  # texts by code, for all other reasons
UNEXPLAINED = {"short": "the bench found a fault", "means": "see the fault above."}


def check(file: Path, folder: Path) -> int:
    """Measure the server and the one to compare it with, print a report, save the raw values, and return the exit code.

    Raises:
        BadInputError: the file defines no server, or its server does not start.
    """
    is_exercise = file.stem in all_exercises()
    exercise = all_exercises()[file.stem] if is_exercise else Exercise()
    plan = _plan(file, exercise)
    name = next(name for name, target in plan.targets.items() if target.path == file.resolve())
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / f"check-{legible(file.stem)}.json"
    with LessonProgressBar(plan.turns()) as progress_bar:
        command, undecided = [PROGRAM, "lesson", "check", str(file)], partial(undecided_cases, name, exercise)
        result, stopped_by, _ = run_plan(plan, Reporting(out, progress_bar, command), racing=Racing(undecided))
    if stopped_by:
        return 128 + stopped_by
    for record in result.records:
        if record.server == name and record.failure and record.ready_s is None:
            raise BadInputError(f"{file} does not start: {record.failure.message}")
    report = CheckReport(name, exercise, ResultView(result), is_exercise=is_exercise)
    lesson_console().print(renderable(replace(report.view(), footnotes=(f"Raw values: {out}",))))
    return report.exit_code


def _plan(file: Path, exercise: Exercise) -> Plan:
    """Return a plan that measures the server, the server with which the exercise compares it, and the ceiling."""
    target = replace(read_strategy(file), ready_within_s=READY_WITHIN_S)
    beside = find_strategy(exercise.beside)
    others = () if beside.path == target.path else (beside,)
    suite = replace(strategies_suite([exercise.beside]), targets=(target, *others))
    axes: dict[str, Sequence[Value]] = {"task": [exercise.task], "users": [exercise.users], "python": [sys.executable]}
    if exercise.workers:
        axes["workers"] = [exercise.workers]
    return make_plan(suite, axes, time_s=TIME_S, rounds=MOST_ROUNDS, seed=SEED)


def undecided_cases(name: str, exercise: Exercise, result: Result) -> Decision:
    """Return the cases to measure in another round: all of them until the exercise is decided, then none."""
    if any(record.failure for record in result.records):
        return Decision(())
    is_decided = CheckReport(name, exercise, ResultView(result), is_exercise=True).exit_code != NOT_DECIDED
    if is_decided and max(record.round for record in result.records) >= LEAST_ROUNDS:
        return Decision(())
    return Decision([record.case for record in result.records])


class CheckReport:
    """A report on a server: which faults it has, and which claims of its exercise hold."""

    def __init__(self, name: str, exercise: Exercise, view: ResultView, *, is_exercise: bool) -> None:
        self._exercise, self._is_exercise = exercise, is_exercise
        self._cases = view.comparison.cases
        index, self._case = next((index, case) for index, case in enumerate(self._cases) if case.server == name)
        has_wrong_answers = any(each.attempts for each in view.comparison.rounds[index])
        excused = OF_THE_MACHINE.keys() - ({"no_transactions"} if has_wrong_answers else set())
        self.faults = [reason for reason in self._case.reasons if reason.code not in excused]
        self.doubts = [reason for reason in self._case.reasons if reason.code in excused]
        claims = () if self._case.verdict == FAILED else exercise.claims
        # Trust the figures of suspect servers, too: they can't solve the exercise, but can refute a claim.
        self.claims = [decide(msgspec.structs.replace(claim, of=name), view, trusted=True) for claim in claims]

    @property
    def exit_code(self) -> int:
        """Return 0 if there is no fault and all claims hold, 3 if the outcome is undecided, else 1."""
        outcomes = {claim.outcome for claim in self.claims}
        if self.faults or NOT_HERE in outcomes:
            return NOT_SOLVED
        doubts = {reason.code for reason in self.doubts} - NOISE
        return NOT_DECIDED if doubts or UNDECIDED in outcomes else SOLVED

    def view(self) -> View:
        """Return the verdict, what it is based on, and a hint if the exercise is not solved."""
        fault = FAULTS.get(self.faults[0].code, UNEXPLAINED) if self.faults else {}
        remarks = [f"What that means: {fault['means']}"] if fault else []
        if self.exit_code == NOT_SOLVED and (hint := self._exercise.hint or fault.get("hint")):
            remarks.append(f"Hint: {hint}")
        return View(
            f"Is {self._case.server} correct?",
            headline=(Paragraph(self._verdict(fault), list(self._findings()), remarks, is_main=True),),
            tables=() if self._case.verdict == FAILED else (self._figures(),),
            exit_code=self.exit_code,
        )

    def _findings(self) -> Iterator[tuple[str, str]]:
        """Yield a mark and a sentence for each fault, each claim, and the first doubt."""
        for reason in self.faults:
            before, colon, message = reason.message.partition(": ")
            yield MARKS[NOT_HERE], f"{message if colon and before.startswith('round ') else reason.message}."
        yield from ((MARKS[claim.outcome], _sentence(claim)) for claim in self.claims)
        if self.exit_code == NOT_DECIDED and self.doubts:
            yield MARKS[UNDECIDED], OF_THE_MACHINE[self.doubts[0].code]

    def _figures(self) -> Table:
        columns = [Column("server", is_text=True), *(Column(COLUMNS[name][0]) for name in ("rate", "p50", "ping p50"))]
        rows = [
            (
                case.server,
                _rate(case.rate_per_s.mean if case.rate_per_s else None),
                _median(case.response_s),
                _median(case.ping_s),
            )
            for case in self._cases
        ]
        rows.append(("ceiling", _rate(self._case.ceiling_per_s), "", ""))
        caption = (
            f"{self._exercise.users} users sent requests for the task {self._exercise.task}, each user one request at "
            "a time, and the bench sent pings. The ceiling is the users' throughput if they run the task themselves."
        )
        return Table("figures", "Measured", columns, [Row([*map(Cell, texts)]) for texts in rows], [caption], gap=2)

    def _verdict(self, fault: dict[str, str]) -> str:
        if self.exit_code == SOLVED:
            return "Solved: no fault was found." if self._is_exercise else "No fault was found."
        if self.exit_code == NOT_DECIDED:
            return "Not decided: no fault was found, but this run does not prove that there is none."
        state = "Not solved yet" if self._is_exercise else "Fault found"
        return f"{state}: {fault['short']}." if fault else f"{state}."


def _sentence(claim: ClaimResult) -> str:
    because = f" is not decided: {claim.reason or claim.possible}." if claim.outcome == UNDECIDED else ""
    return f"{formatting.capitalized(claim.sentence)}{because}"


def _rate(per_s: float | None) -> str:
    return f"{formatting.rate(per_s)}/s" if per_s else "?"


def _median(waits: Latency | None) -> str:
    if waits is None:
        return "?"
    return f"> {formatting.seconds(waits.max)}" if waits.p50 is None else formatting.seconds(waits.p50)
