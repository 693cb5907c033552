"""The rules that make a case `failed`, `suspect` or `unclear`, from records alone: old results are judged anew.

Rules on single answers look at one round; rules on rates look at the intervals of all rounds of a case. Noise widens
these intervals. It makes a case `unclear` only where an excess over what is possible can't be excluded, or where the
interval is useless. A rule is skipped where the load tool or the target does not give what it needs.

Limits are tested on intervals, not on estimates (two one-sided tests: Schuirmann, J. Pharmacokinet. Biopharm. 15,
1987). A case is accused if its interval lies above a limit, and cleared if the interval excludes every excess that
matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from under_siege import formatting
from under_siege.checks import suspicions
from under_siege.checks.evidence import Evidence, Look
from under_siege.checks.suspicions import paced_by_the_tool
from under_siege.model.record import Record
from under_siege.stats.estimates import Estimate, ratio, student_at
from under_siege.stats.rounds_data import Round

OK, SUSPECT, UNCLEAR, FAILED = "ok", "suspect", "unclear", "failed"


class Reason(msgspec.Struct, frozen=True):
    """Why a verdict is not `ok`."""

    code: str
    message: str


SURE, LIKELY = 0.9995, 0.95  # probabilities of the one-sided bounds that accuse, and that clear
# Below this the methods of measuring may explain it; from that on it can't be excluded and so is said.
TOLERATED_RATE, MOST_RATE = math.log(1.04), math.log(1.20)
TOLERATED_CPU, MOST_CPU = math.log(1.06), math.log(1.20)
LEAST_CPU_S = 0.001  # what the CPU clock can tell from nothing
HARDLY = 0.1  # of its time alone, a task computes: then its CPU time tells little


@dataclass(frozen=True, slots=True)
class Excess:
    """How many times what is possible a case may have done, as logarithms."""

    estimate: float
    least: float  # with the usual noise between rounds: a server can't hide behind noise of its own
    most: float

    @classmethod
    def of(cls, between: Estimate) -> Excess:
        """Return the bounds of a ratio."""
        margin = student_at(between.typical_degrees, SURE) * between.typical_variance**0.5
        return cls(between.log, between.log - margin, between.bound(LIKELY))


@dataclass(frozen=True, slots=True)
class Limits:
    """What the rounds of a case are compared with."""

    rounds: Sequence[Round]
    rate: Excess | None  # the rate, as a multiple of the ceiling
    cpu: Excess | None  # the CPU time that the task needs, as a multiple of what an answer took
    rate_per_s: float = 0.0
    ceiling_per_s: float = 0.0
    cpu_s: float = 0.0
    needed_cpu_s: float = 0.0
    knows_task: bool = True  # how long it takes alone

    def above_ceiling(self) -> str | None:
        """Return a message if it certainly did more than the ceiling."""
        if self.rate is None or self.rate.least <= TOLERATED_RATE:
            return None
        return (
            f"{formatting.rate(self.rate_per_s)}/s is {_times(self.rate.estimate)} times the ceiling of "
            f"{formatting.rate(self.ceiling_per_s)}/s: answers were sent before the work was done, or without it; "
            "check that every result is awaited"
        )

    def too_cheap(self) -> str | None:
        """Return a message if it certainly used less CPU time than the task needs."""
        if self.cpu is None or self.cpu.least <= TOLERATED_CPU:
            return None
        return (
            f"{formatting.seconds(self.cpu_s)} of CPU for each transaction, but the task needs "
            f"{formatting.seconds(self.needed_cpu_s)}: the work is not done, or done outside of the server's processes"
        )

    def unverified(self) -> str | None:
        """Return a message if too large an excess can't be excluded, and it is not accused of one."""
        if self.above_ceiling() or self.too_cheap():
            return None
        doubts = []
        if self.rounds[0].record.has_task and not self.knows_task:
            doubts.append("answers without any work (how long the task takes alone is not known)")
        if self.rate is not None and self.rate.most > MOST_RATE and self.rounds[0].record.has_task:
            doubts.append(f"up to {_times(self.rate.most)} times the ceiling")
        if self.cpu is not None and self.cpu.most > MOST_CPU:
            doubts.append(f"work that is up to {_times(self.cpu.most)} times what its CPU time allows")
        return (
            f"the interval is too wide to verify the work: {' and '.join(doubts)} can't be excluded" if doubts else None
        )


def _times(log: float) -> str:
    return formatting.significant(math.exp(log), 3)


def limits_of(rounds: Sequence[Round], estimates: Mapping[str, Estimate | None], evidence: Evidence) -> Limits:
    """Return what is known of a case and its limits."""
    share, cpu = estimates.get("of_ceiling"), estimates.get("cpu_s_per_transaction")
    need = evidence.cpu_need(rounds[0])
    rate = estimates.get("rate_per_s")
    by_rate = Excess.of(share) if share and share.degrees and not any(map(paced_by_the_tool, rounds)) else None
    by_cpu = None
    if need and cpu and cpu.degrees and need.mean >= LEAST_CPU_S and _computes(rounds):
        by_cpu = Excess.of(ratio(need, cpu))
    return Limits(
        rounds,
        by_rate,
        by_cpu,
        rate.mean if rate else 0.0,
        rate.mean / share.mean if rate and share else 0.0,
        cpu.mean if cpu else 0.0,
        need.mean if need else 0.0,
        evidence.needs(rounds[0]) is not None,
    )


def _computes(rounds: Sequence[Round]) -> bool:
    """Return whether a good part of the task is computing."""
    records = [one.record for one in rounds]
    wall_s = sum(sum(record.alone_wall_s) for record in records)
    return not wall_s or sum(sum(record.alone_cpu_s) for record in records) > HARDLY * wall_s


Estimates = Mapping[str, Estimate | None]
USELESS = 2.0  # times the lower end of an interval is its upper end

# What a round may lack.
_HAS: dict[str, Callable[[Round, Evidence], bool]] = {
    "arrivals": lambda one, _: bool(one.record.transactions.finished_s),  # single answers, and when each came
    "pings": lambda one, _: bool(one.record.pings.due_s),
    "CPU": lambda one, _: len(one.record.samples.cpu_s) > 1,  # of the target
    "alone": lambda one, evidence: evidence.needs(one) is not None,  # what the task takes with nothing beside it
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


@dataclass(frozen=True, slots=True)
class CaseRule:
    """A rule on all rounds of a case together."""

    code: str
    verdict: str
    look: Callable[[Limits, Estimates], str | None]


def judge(rounds: Sequence[Round], estimates: Estimates, evidence: Evidence) -> list[Reason]:
    """Return every reason not to take the case at face value, the gravest first. Failures are not judged further."""
    failures = [(one, reason) for one in rounds if (reason := _failure(one)) is not None]
    if failures:
        return _once(rounds, failures)
    limits, found = limits_of(rounds, estimates, evidence), list[Reason]()
    for rule in RULES:
        if isinstance(rule, CaseRule):
            message = rule.look(limits, estimates)
            found += [Reason(rule.code, message)] if message else []
        else:
            of_rounds = [(one, text) for one in rounds if (text := rule.message(one, evidence)) is not None]
            found += _once(rounds, [(one, Reason(rule.code, text)) for one, text in of_rounds])
    return found


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


def _too_short(limits: Limits, _: Estimates) -> str | None:
    """Return why no round tells the rate."""
    return limits.rounds[0].rate.too_short if all(one.rate.per_s is None for one in limits.rounds) else None


def _no_ceiling(limits: Limits, _: Estimates) -> str | None:
    """Return why there is no ceiling, where there should be one."""
    first = limits.rounds[0]
    if not first.record.has_ceiling or any(one.ceiling and one.ceiling.rate.per_s for one in limits.rounds):
        return None
    why = "was not measured"
    if first.ceiling is not None and first.ceiling.record.failure is not None:
        why = f"failed: {first.ceiling.record.failure.message}"
    elif first.ceiling is not None:
        why = f"has no rate: {first.ceiling.rate.too_short}"
    return f"the ceiling {why}; without it nothing limits what may be true"


def _wide_interval(_: Limits, estimates: Estimates) -> str | None:
    rate = estimates.get("rate_per_s")
    edges = rate.interval() if rate else None
    if edges is None or edges[1] <= USELESS * edges[0]:
        return None
    return (
        f"its throughput is only known to lie between {formatting.rate(edges[0])}/s and {formatting.rate(edges[1])}/s: "
        "run more rounds, or close other programs"
    )


RULES: tuple[Rule | CaseRule, ...] = (  # the gravest for what can be believed first: they explain others
    CaseRule("above_ceiling", SUSPECT, lambda limits, _: limits.above_ceiling()),
    Rule("too_fast", SUSPECT, suspicions.too_fast, ("alone",)),
    CaseRule("too_cheap", SUSPECT, lambda limits, _: limits.too_cheap()),
    Rule("littles_law", SUSPECT, suspicions.littles_law, ("arrivals",)),
    Rule("timer", SUSPECT, suspicions.timer, ("CPU",)),
    Rule("availability", SUSPECT, suspicions.availability),
    Rule("pings", SUSPECT, suspicions.unanswered_pings, ("pings",)),
    Rule("generator", SUSPECT, suspicions.starved_generator),
    Rule("ports", SUSPECT, suspicions.no_ports),
    Rule("unknown_lines", SUSPECT, suspicions.unknown_lines),
    CaseRule("too_short", UNCLEAR, _too_short),
    CaseRule("no_ceiling", UNCLEAR, _no_ceiling),
    CaseRule("unverified", UNCLEAR, lambda limits, _: limits.unverified()),
    CaseRule("wide_interval", UNCLEAR, _wide_interval),
)
_VERDICTS = {rule.code: rule.verdict for rule in RULES}
