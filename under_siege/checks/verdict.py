"""Rules that make a case `failed`, `suspect` or `unclear`. They use records only, so they also judge old results.

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
from typing import NamedTuple

import msgspec

from under_siege import formatting
from under_siege.checks import suspicions
from under_siege.checks.evidence import Evidence, Look
from under_siege.model.record import Record
from under_siege.stats.estimates import Estimate, ratio, student_at
from under_siege.stats.rounds_data import Round

Estimates = Mapping[str, Estimate | None]
OK, SUSPECT, UNCLEAR, FAILED = "ok", "suspect", "unclear", "failed"


class Reason(msgspec.Struct, frozen=True):
    """Why a verdict is not `ok`."""

    code: str
    message: str


SURE, LIKELY = 0.9995, 0.95  # probabilities of the one-sided bounds for `suspect` and for `ok`
# Below this the methods of measuring may explain it; from that on it can't be excluded and so is said.
TOLERATED_RATE, MOST_RATE = math.log(1.04), math.log(1.20)
TOLERATED_CPU, MOST_CPU = math.log(1.06), math.log(1.20)
LEAST_CPU_S = 0.001  # resolution of the CPU clock
USELESS = 2.0  # the upper end of an interval as a multiple of the lower end
HARDLY = 0.1  # with a smaller share of CPU time, the CPU time of a task proves little


class Excess(NamedTuple):
    """How many times what is possible a case may have done, as logarithms."""

    estimate: float
    least: float  # with the usual noise between rounds: a server can't hide behind noise of its own
    most: float


def _excess(ratio: Estimate) -> Excess:
    margin = student_at(ratio.typical_degrees, SURE) * ratio.typical_variance**0.5
    return Excess(ratio.log, ratio.log - margin, ratio.bound(LIKELY))


class Limits:
    """What the rounds of a case are compared with."""

    def __init__(self, rounds: Sequence[Round], estimates: Estimates, evidence: Evidence) -> None:
        self.rounds = rounds
        self.knows_task = evidence.needs(rounds[0]) is not None  # how long it takes alone
        self.rate, self.share = estimates.get("rate_per_s"), estimates.get("of_ceiling")
        self.cpu, self.needed_cpu = estimates.get("cpu_s_per_transaction"), evidence.cpu_need(rounds[0])
        self.rate_excess: Excess | None = None  # of the rate, over the ceiling
        self.cpu_excess: Excess | None = None  # of the CPU time that the task needs, over that of an answer
        self.is_settled = all(one.rate.is_settled and _ceiling_is_settled(one) for one in rounds)
        is_paced = any(map(suspicions.paced_by_the_tool, rounds))
        if self.share and self.share.degrees and self.is_settled and not is_paced:
            self.rate_excess = _excess(self.share)
        is_known = self.needed_cpu and self.needed_cpu.mean >= LEAST_CPU_S and _computes(rounds)
        if self.needed_cpu and is_known and self.cpu and self.cpu.degrees:
            self.cpu_excess = _excess(ratio(self.needed_cpu, self.cpu))


def _ceiling_is_settled(one: Round) -> bool:
    return one.ceiling is None or one.ceiling.rate.is_settled


def _computes(rounds: Sequence[Round]) -> bool:
    """Return whether a good part of the task is computing."""
    wall_s, cpu_s = (sum(sum(getattr(one.record, name)) for one in rounds) for name in ("alone_wall_s", "alone_cpu_s"))
    return not wall_s or cpu_s > HARDLY * wall_s


def above_ceiling(limits: Limits) -> str | None:
    """Return a message if the case certainly did more than the ceiling."""
    excess, rate, share = limits.rate_excess, limits.rate, limits.share
    if excess is None or rate is None or share is None or excess.least <= TOLERATED_RATE:
        return None
    return (
        f"{formatting.rate(rate.mean)}/s is {_times(excess.estimate)} times the ceiling of "
        f"{formatting.rate(rate.mean / share.mean)}/s: answers were sent before the work was done, or without it; "
        "check that every result is awaited"
    )


def too_cheap(limits: Limits) -> str | None:
    """Return a message if the case certainly used less CPU time than the task needs."""
    excess, cpu, needed = limits.cpu_excess, limits.cpu, limits.needed_cpu
    if excess is None or cpu is None or needed is None or excess.least <= TOLERATED_CPU:
        return None
    return (
        f"{formatting.seconds(cpu.mean)} of CPU for each transaction, but the task needs "
        f"{formatting.seconds(needed.mean)}: the work is not done, or done outside of the server's processes"
    )


def unverified(limits: Limits) -> str | None:
    """Return a message if too large an excess can't be excluded, and the case is not accused of one."""
    if above_ceiling(limits) or too_cheap(limits):
        return None
    doubts, has_task = [], limits.rounds[0].record.has_task
    if has_task and not limits.knows_task:
        doubts.append("answers without any work (how long the task takes alone is not known)")
    if limits.rate_excess and limits.rate_excess.most > MOST_RATE and has_task:
        doubts.append(f"up to {_times(limits.rate_excess.most)} times the ceiling")
    if limits.cpu_excess and limits.cpu_excess.most > MOST_CPU:
        doubts.append(f"work that is up to {_times(limits.cpu_excess.most)} times what its CPU time allows")
    return f"the interval is too wide to verify the work: {' and '.join(doubts)} can't be excluded" if doubts else None


def _times(log: float) -> str:
    return formatting.significant(math.exp(log), 3)


def too_short(limits: Limits) -> str | None:
    """Return why no round has a rate, or why it may be far off."""
    if all(one.rate.per_s is None for one in limits.rounds):
        return limits.rounds[0].rate.too_short
    if limits.is_settled:
        return None
    return "the siege ended before nine of ten users had an answer, here or for the ceiling: take a longer --time"


def no_ceiling(limits: Limits) -> str | None:
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


def wide_interval(limits: Limits) -> str | None:
    """Return a message if the interval of the rate says next to nothing."""
    edges = limits.rate.interval() if limits.rate else None
    if edges is None or edges[1] <= USELESS * edges[0]:
        return None
    return (
        f"its throughput is only known to lie between {formatting.rate(edges[0])}/s and {formatting.rate(edges[1])}/s: "
        "run more rounds, or close other programs"
    )


@dataclass(frozen=True, slots=True)
class Rule:
    """A check of each round, or of all rounds of a case together, and the verdict if it returns a message."""

    code: str
    verdict: str
    of_round: Look | None = None
    of_case: Callable[[Limits], str | None] | None = None


RULES = (  # the gravest first, because they explain others
    Rule("above_ceiling", SUSPECT, of_case=above_ceiling),
    Rule("too_fast", SUSPECT, suspicions.too_fast),
    Rule("too_cheap", SUSPECT, of_case=too_cheap),
    Rule("littles_law", SUSPECT, suspicions.littles_law),
    Rule("timer", SUSPECT, suspicions.timer),
    Rule("availability", SUSPECT, suspicions.availability),
    Rule("pings", SUSPECT, suspicions.unanswered_pings),
    Rule("generator", SUSPECT, suspicions.starved_generator),
    Rule("ports", SUSPECT, suspicions.no_ports),
    Rule("unknown_lines", SUSPECT, suspicions.unknown_lines),
    Rule("too_short", UNCLEAR, of_case=too_short),
    Rule("no_ceiling", UNCLEAR, of_case=no_ceiling),
    Rule("unverified", UNCLEAR, of_case=unverified),
    Rule("wide_interval", UNCLEAR, of_case=wide_interval),
)
_VERDICTS = {rule.code: rule.verdict for rule in RULES}


def judge(rounds: Sequence[Round], estimates: Estimates, evidence: Evidence) -> list[Reason]:
    """Return every reason not to take the case at face value, the gravest first. Failures are not judged further."""
    failures = [(one, reason) for one in rounds if (reason := _failure(one)) is not None]
    if failures:
        return _once(rounds, failures)
    limits, reasons = Limits(rounds, estimates, evidence), list[Reason]()
    for rule in RULES:
        if rule.of_case:
            message = rule.of_case(limits)
            reasons += [Reason(rule.code, message)] if message else []
        if rule.of_round:
            messages = [(one, evidence.asked(rule.of_round, one)) for one in rounds]
            reasons += _once(rounds, [(one, Reason(rule.code, text)) for one, text in messages if text])
    return reasons


def verdict_of(reasons: Sequence[Reason]) -> str:
    """Return the gravest verdict of all reasons."""
    verdicts = {_VERDICTS.get(reason.code, FAILED) for reason in reasons}
    return next((verdict for verdict in (FAILED, SUSPECT, UNCLEAR) if verdict in verdicts), OK)


def _once(rounds: Sequence[Round], found: Sequence[tuple[Round, Reason]]) -> list[Reason]:
    """Return the same code only once: the first round stands for the others."""
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
    """Return the sizes of answers that have the right status, and not the right size."""
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
