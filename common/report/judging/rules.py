"""The rules: what makes a case `failed`, `suspect` or `unclear`, from records alone: old results are judged anew.

Where noise would hide so large a lie that a rule is worth nothing, that is a doubt, and the case is `unclear`: it is
never `ok` by noise. What a rule needs and the load tool or the target does not give, it can't be applied to.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.model.record import Record
from common.report.figures.rounds import Round
from common.report.judging import doubts, suspicions, timers
from common.report.judging.evidence import Evidence, Look
from common.report.judging.verdict import FAILED, OK, SUSPECT, UNCLEAR, Reason

# What a round may lack.
_HAS: dict[str, Callable[[Round, Evidence], bool]] = {
    "arrivals": lambda one, _: bool(one.record.transactions.finished_s),  # single answers, and when each came
    "pings": lambda one, _: bool(one.record.pings.due_s),
    "CPU": lambda one, _: len(one.record.samples.cpu_s) > 1,  # of the target
    "machine": lambda one, _: one.record.machine is not None and one.record.machine.total_s > 0,
    "alone": lambda one, evidence: evidence.needs(one) is not None,  # what the task takes with nothing beside it
    "ceiling": lambda one, _: one.ceiling is not None and one.ceiling.rate.per_s is not None,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """What is looked for in a round, what that needs, and what it makes of a case: the message, or None."""

    code: str
    verdict: str
    look: Look
    needs: tuple[str, ...] = ()

    def message(self, one: Round, evidence: Evidence) -> str | None:
        """What it finds; None if that is nothing, or can't be looked for."""
        return evidence.asked(self.look, one) if all(_HAS[need](one, evidence) for need in self.needs) else None


def judge(rounds: Sequence[Round], evidence: Evidence) -> list[Reason]:
    """Every reason not to take the case at face value, the gravest first. What failed is not judged further."""
    failures = [(one, reason) for one in rounds if (reason := _failure(one)) is not None]
    if failures:
        return _once(rounds, failures)
    found = [
        (one, Reason(rule.code, message))
        for rule in RULES
        for one in rounds
        if (message := rule.message(one, evidence)) is not None
    ]
    return _once(rounds, found)


def verdict_of(reasons: Sequence[Reason]) -> str:
    """The gravest verdict of all reasons."""
    verdicts = {_VERDICTS.get(reason.code, FAILED) for reason in reasons}
    return next((verdict for verdict in (FAILED, SUSPECT, UNCLEAR) if verdict in verdicts), OK)


def _once(rounds: Sequence[Round], found: Sequence[tuple[Round, Reason]]) -> list[Reason]:
    """The same code only once: the first round stands for the others."""
    told: dict[str, Reason] = {}
    for one, reason in found:
        where = f"round {one.record.round}: " if len(rounds) > 1 else ""
        told.setdefault(reason.code, Reason(reason.code, where + reason.message))
    return list(told.values())


def _failure(one: Round) -> Reason | None:
    record = one.record
    if record.failure is not None:
        return Reason(record.failure.code, record.failure.message)
    for code, problem in zip(record.checks.code, record.checks.problem, strict=True):
        if code == "wrong_answer":
            return Reason(code, f"a check while the siege was on: {problem}: it is not the task that was measured")
    wrong = [] if record.answer_bytes < 0 or one.good.all() else _of_wrong_size(record)
    if wrong:
        return Reason(
            "wrong_answer",
            f"{len(wrong)} of {len(one.good)} answers under load were not the right one: "
            f"{wrong[0]} bytes long instead of {record.answer_bytes}",
        )
    if contents := sum(record.bursts.wrong_contents):
        return Reason(
            "wrong_answer",
            f"{contents} of {one.attempts} answers under load had a good status and wrong contents: "
            "what was read, or stored, is not what it should be",
        )
    if (hollow := _of_another_length(one)) is not None:
        return hollow
    if not one.completed:
        told = f"; {one.attempts} requests got no right answer" if one.attempts else ""
        return Reason("no_transactions", f"no transaction was completed in {record.load_s or 0:.1f} s of siege{told}")
    return None


def _of_wrong_size(record: Record) -> list[int]:
    """The sizes of answers that have the right status, and not the right size."""
    answers = zip(record.transactions.size_bytes, record.transactions.status, strict=True)
    return [size for size, code in answers if code == record.answer_status and size != record.answer_bytes]


def _of_another_length(one: Round) -> Reason | None:
    """Answers that were only counted, with their bytes; those of what was on its way at the end may be among them."""
    if odd := sum(filter(None, one.totals.columns.odd_bytes)):
        return Reason(
            "wrong_answer",
            f"the {one.completed:,} answers under load were not the right ones: they had {odd:,} bytes more or fewer "
            "than the files that were asked for",
        )
    told, expected = one.totals.bytes_of_answers(), one.record.answer_bytes
    if told is None or expected <= 0:
        return None
    size, answers = told
    if abs(size - answers * expected) <= len(one.totals.took_s) * one.record.users * expected or not answers:
        return None
    return Reason(
        "wrong_answer",
        f"the {answers} answers under load were not the right ones: {size / answers:.1f} bytes long on the average "
        f"instead of {expected}",
    )


RULES = (  # the gravest for what can be believed first: they explain others
    Rule("busy_machine", UNCLEAR, doubts.busy_machine, ("machine",)),
    Rule("unsteady_machine", UNCLEAR, doubts.unsteady_machine),
    Rule("above_ceiling", SUSPECT, suspicions.above_ceiling, ("ceiling",)),
    Rule("too_fast", SUSPECT, suspicions.too_fast, ("alone",)),
    Rule("too_cheap", SUSPECT, suspicions.too_cheap, ("alone", "CPU")),
    Rule("littles_law", SUSPECT, suspicions.littles_law, ("arrivals",)),
    Rule("timer", SUSPECT, timers.timer, ("CPU",)),
    Rule("availability", SUSPECT, suspicions.availability),
    Rule("pings", SUSPECT, suspicions.unanswered_pings, ("pings",)),
    Rule("generator", SUSPECT, suspicions.starved_generator),
    Rule("ports", SUSPECT, suspicions.no_ports),
    Rule("late_probe", SUSPECT, suspicions.late_probe, ("pings",)),
    Rule("unknown_lines", SUSPECT, suspicions.unknown_lines),
    Rule("too_short", UNCLEAR, doubts.too_short),
    Rule("no_ceiling", UNCLEAR, doubts.no_ceiling),
    Rule("doubtful_ceiling", UNCLEAR, doubts.doubtful_ceiling),
    Rule("unsteady_ceiling", UNCLEAR, doubts.unsteady_ceiling, ("ceiling",)),
    Rule("blind", UNCLEAR, doubts.blind),
)
_VERDICTS = {rule.code: rule.verdict for rule in RULES}
