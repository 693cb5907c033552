"""bench.py lesson check FILE: what the bench says of a server that somebody has written, in words for a beginner."""

import sys
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
from rich.text import Text

from common.errors import BadInputError
from common.harness.plan import Plan, make_plan
from common.harness.ready.strategies import find_strategy, read_strategy, strategies_suite
from common.harness.session import conduct
from common.lesson import telling
from common.lesson.claims import NOT_HERE, UNTOLD, Judged, judged
from common.lesson.exercise import Exercise, exercise_of
from common.lesson.figures import Seen
from common.lesson.plainly import OF_THE_MACHINE, finding
from common.lesson.progress import LessonProgress
from common.model.case import Case
from common.model.legible import legible
from common.model.record import Result
from common.report import numbers
from common.report.judging.summary import Latency, Summary
from common.report.judging.verdict import FAILED, Reason

SOLVED, NOT_SOLVED, CANNOT_TELL = 0, 1, 3
TIME_S, ROUNDS, SEED = 1.5, 2, 1
READY_WITHIN_S = 8.0
_CEILING = {"busy_machine", "doubtful_ceiling"}  # where these are, that it was exceeded says little: a siege is short
COLUMNS = ("rate", "p50", "ping p50")


def check(file: Path, keep: Path) -> int:
    """Measures the server beside one that is known, and says what was seen; the exit code.

    Args:
        keep: the folder for raw values; it is made.

    Raises:
        BadInputError: the file is no server, or does not start.
    """
    exercise = exercise_of(file)
    plan = plan_for(file, exercise or Exercise())
    keep.mkdir(parents=True, exist_ok=True)
    out = keep / f"check-{legible(file.stem)}.json"
    with LessonProgress(plan.turns()) as progress:
        words = ["bench.py", "lesson", "check", str(file)]
        result, stopped_by, _ = conduct(plan, out, progress, words, wanted=_unless_it_failed)
    if stopped_by:
        return 128 + stopped_by
    _refuse_what_does_not_start(file, plan, result)
    found = Checked(_name_in(plan, file), exercise or Exercise(), Seen(result), is_exercise=exercise is not None)
    console = telling.console()
    for line in found.told():
        console.print(Text(line), soft_wrap=True)
    console.print(Text(f"Raw values: {out}", style="dim"), soft_wrap=True)
    return found.exit_code


def plan_for(file: Path, exercise: Exercise) -> Plan:
    """The server beside the one of its exercise, under the ceiling; raises BadInputError as `check`."""
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
    return make_plan(suite, axes, time_s=TIME_S, rounds=ROUNDS, seed=SEED)


def _unless_it_failed(result: Result) -> Collection[Case]:
    """Who has failed once need not be asked again; then the others need not either."""
    if any(record.failure for record in result.records):
        return ()
    return [record.case for record in result.records]


def _name_in(plan: Plan, file: Path) -> str:
    return next(name for name, target in plan.targets.items() if target.path == file.resolve())


def _refuse_what_does_not_start(file: Path, plan: Plan, result: Result) -> None:
    for record in result.records:
        if record.server == _name_in(plan, file) and record.failure and record.ready_s is None:
            raise BadInputError(f"{file} does not start: {record.failure.message}")


class Checked:
    """A server after its sieges: what is held against it, what has come of the claims, and that in words."""

    def __init__(self, name: str, exercise: Exercise, seen: Seen, *, is_exercise: bool) -> None:
        self._name, self._exercise, self._seen, self._is_exercise = name, exercise, seen, is_exercise
        self._case: Summary = next(case for case in seen.comparison.cases if case.server == name)
        excused = self._excused()
        self.against = [one for one in self._case.reasons if one.code not in excused]
        self.doubts = [one for one in self._case.reasons if one.code in excused]
        # A claim that is plainly missed is missed on a noisy machine, too; only nothing is proved there.
        claims = () if self._case.verdict == FAILED else exercise.claims
        own = [msgspec.structs.replace(claim, of=name) for claim in claims]
        self.claims = [judged(claim, seen, in_doubt=True) for claim in own]

    def _excused(self) -> set[str]:
        """The codes of reasons that may be the machine's own, in so short a time."""
        rounds = self._seen.comparison.rounds[self._seen.comparison.cases.index(self._case)]
        excused = set(OF_THE_MACHINE)
        if any(one.attempts for one in rounds):
            excused.remove("no_transactions")  # some were answered, and wrongly
        codes = {one.code for one in self._case.reasons}
        return {*excused, "above_ceiling"} if codes & _CEILING else excused

    @property
    def exit_code(self) -> int:
        """0 if nothing is found fault with and all claims hold, 1 if not, 3 if that can't be told."""
        outcomes = {one.outcome for one in self.claims}
        if self.against or NOT_HERE in outcomes:
            return NOT_SOLVED
        return CANNOT_TELL if self.doubts or UNTOLD in outcomes else SOLVED

    def told(self) -> Iterator[str]:
        """Line by line."""
        if self._case.verdict != FAILED:
            yield from self._figures()
        yield f"\n{self._verdict()}"
        yield from (telling.paragraph(f"✗ {_without_round(one)}.") for one in self.against)
        yield from map(_in_a_line, self.claims)
        if self.exit_code == CANNOT_TELL:
            yield from (
                telling.paragraph(f"? {OF_THE_MACHINE[one.code]}")
                for one in self.doubts[:1]
                if one.code in OF_THE_MACHINE
            )
        if self.against:
            yield telling.paragraph(f"What that means: {finding(self.against[0].code).means}")
        if self.exit_code == NOT_SOLVED and (hint := self._hint()):
            yield telling.paragraph(f"Hint: {hint}")

    def _figures(self) -> Iterator[str]:
        yield telling.paragraph(
            f"{self._exercise.users} users asked again and again for the task {self._exercise.task}, and somebody "
            "pinged meanwhile. Usual is what half of the waits and pings were shorter than. The ceiling is what such "
            "users reach with no server at all."
        )
        rows = [("", *(telling.COLUMNS[what][0] for what in COLUMNS)), *map(_row, self._seen.comparison.cases)]
        rows.append(("ceiling", _rate(self._case.ceiling_per_s), "", ""))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for first, *others in rows:
            cells = (text.rjust(width) for text, width in zip(others, widths[1:], strict=True))
            yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()

    def _verdict(self) -> str:
        if self.exit_code == SOLVED:
            return "Solved: nothing is found fault with." if self._is_exercise else "Nothing is found fault with."
        if self.exit_code == CANNOT_TELL:
            return "Nothing speaks against it. But whether that is so can't be told here:"
        so_far = "Not solved yet" if self._is_exercise else "Not to be believed"
        return f"{so_far}: {finding(self.against[0].code).short}." if self.against else f"{so_far}."

    def _hint(self) -> str:
        """That of the exercise; else that of what was found first."""
        return self._exercise.hint or (finding(self.against[0].code).hint if self.against else "")


def _row(case: Summary) -> tuple[str, str, str, str]:
    mean = case.rate_per_s.mean if case.rate_per_s else None
    return case.server, _rate(mean), _usual(case.response_s), _usual(case.ping_s)


def _rate(per_s: float | None) -> str:
    return f"{numbers.rate(per_s)}/s" if per_s else "?"


def _usual(waits: Latency | None) -> str:
    if waits is None:
        return "?"
    return f"> {numbers.seconds(waits.max)}" if waits.p50 is None else numbers.seconds(waits.p50)


def _in_a_line(one: Judged) -> str:
    told = f"{one.sentence[0].upper()}{one.sentence[1:]}"
    because = f" can't be told here: {one.reason or one.possible}." if one.outcome == UNTOLD else ""
    return telling.paragraph(f"{telling.MARKS.get(one.outcome, '?')} {told}{because}")


def _without_round(reason: Reason) -> str:
    before, colon, message = reason.message.partition(": ")
    return message if colon and before.startswith("round ") else reason.message
