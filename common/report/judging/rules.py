"""The rules: what makes a case `failed`, `suspect` or `unclear`, from records alone: old results are judged anew.

Each rule looks at one round and says what it saw, what it compared that with, and the likely cause. Where noise would
hide so large a lie that a rule is worth nothing, it says that, and the case is `unclear`: it is never `ok` by noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from common.report import numbers
from common.report.figures.estimates import ACCURACY
from common.report.figures.rounds import Round
from common.report.figures.spans import SIEGE_STEP_S
from common.report.judging.evidence import DRIFT_OF_RATES, Evidence, other_work

OK, SUSPECT, UNCLEAR, FAILED = "ok", "suspect", "unclear", "failed"

# Shares of all CPUs. On a quiet machine other work takes less than 0.01, and siege and the bench 0.01 to 0.02.
OTHER_WORK, STEAL, GENERATOR = 0.05, 0.02, 0.10
FEWEST_FOR_A_MEAN = 5  # answers
CYCLES_OF_OTHERS = 4  # answers that each of the others got, and a user without any is stuck
LATE_S = 0.010  # pings sent later than this say more of this program than of the server
FAST_SHARE = 0.05  # so many answers may look too fast because the line before them was read late
LEAST_CPU_S = 0.001  # what the CPU clock can tell from nothing
# The smallest lie that a rule has to be able to see: more than the ceiling, less time or CPU than the task needs.
SIGHT_OF_RATES, SIGHT_OF_RUNS = 0.25, 0.5
CHANGED = 1.25  # times as fast as at another moment, and a machine counts as unsteady


class Reason(msgspec.Struct, frozen=True):
    """Why a verdict is not `ok`."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Rule:
    """What is looked for in a round, and what it makes of a case where it is found: the message, or None."""

    code: str
    verdict: str
    look: Callable[[Round, Evidence], str | None]


def judge(rounds: Sequence[Round], evidence: Evidence) -> list[Reason]:
    """Every reason not to take the case at face value, the gravest first. What failed is not judged further."""
    failures = [(one, reason) for one in rounds if (reason := _failure(one)) is not None]
    if failures:
        return _once(rounds, failures)
    found = [
        (one, Reason(rule.code, message))
        for rule in RULES
        for one in rounds
        if (message := rule.look(one, evidence)) is not None
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
    sizes = np.asarray(record.transactions.size_bytes, dtype=int)
    wrong = sizes[(np.asarray(record.transactions.status, dtype=int) == 200) & (sizes != record.answer_bytes)]
    if len(wrong):
        return Reason(
            "wrong_answer",
            f"{len(wrong)} of {len(one.good)} answers under load were not the right one: "
            f"{wrong[0]} bytes long instead of {record.answer_bytes}",
        )
    if not one.completed:
        return Reason("no_transactions", f"no transaction was completed in {record.siege_s or 0:.1f} s of siege")
    return None


def _busy_machine(one: Round, _: Evidence) -> str | None:
    """The machine had other work. First among the reasons, because it explains others."""
    machine = one.record.machine
    if machine is None or not machine.total_s:
        return None
    other, steal = other_work(one), machine.steal_s / machine.total_s
    if other <= OTHER_WORK and steal <= STEAL:
        return None
    return (
        f"other work took {100 * other:.0f} % of the machine's CPUs, and {100 * steal:.0f} % were stolen by "
        "other guests of its host: the rate tells of that, too; close other programs and measure again"
    )


def _unsteady_machine(one: Round, evidence: Evidence) -> str | None:
    """Its speed changed; said only of a case that is in doubt anyway, as the likely cause."""
    speeds = evidence.weather.lowest_and_highest(one)
    if speeds is None or speeds[1] < CHANGED * speeds[0] or not _blind(one, evidence):
        return None
    return (
        f"the speed of this machine changed by a factor of {numbers.significant(speeds[1] / speeds[0], 2)} while this "
        "was measured, and no counter shows that: another guest of its host, heat, or a battery; measure again later"
    )


def _above_ceiling(one: Round, evidence: Evidence) -> str | None:
    share = evidence.weather.of_ceiling(one)
    if share is None or share <= 1 + evidence.allowed_above_ceiling(one):
        return None
    return (
        f"{_beside_ceiling(one, share)}: answers were sent before the work was done, or without it; "
        "look whether every result is awaited"
    )


def _beside_ceiling(one: Round, share: float) -> str:
    assert one.ceiling is not None
    return (
        f"{numbers.rate(one.rate.per_s or 0)}/s is {numbers.significant(share)} times the ceiling of "
        f"{numbers.rate(one.ceiling.rate.per_s or 0)}/s"
    )


def _too_fast(one: Round, evidence: Evidence) -> str | None:
    """An answer sooner than the task takes alone: from the idle server, at a check, or too often under load."""
    needs = evidence.needs(one)
    if needs is None:
        return None
    alone_s = needs.wall_s(evidence.speeds(one)[1])
    least_s = alone_s * (1 - needs.allowance)
    answers_s = one.checks.duration_s[one.checks.good].tolist()
    if one.record.idle_answer_s is not None:
        answers_s.append(one.record.idle_answer_s)
    if (one.steady_s < least_s).any():
        at_most_s = one.steady_at_most_s()
        if (at_most_s < least_s).sum() > FAST_SHARE * len(at_most_s):
            answers_s += at_most_s.tolist()
    soonest_s = min(answers_s, default=least_s)
    if soonest_s >= least_s:
        return None
    return (
        f"an answer came after {numbers.seconds(soonest_s)}, but the task alone takes {numbers.seconds(alone_s)}: "
        "the answer did not wait for the work; look whether it comes from a cache, or before the work"
    )


def _too_cheap(one: Round, evidence: Evidence) -> str | None:
    """Less CPU for a transaction than the task needs."""
    used_s, needs = one.cpu_s_per_transaction(), evidence.needs(one)
    if used_s is None or needs is None:
        return None
    needed_s = needs.cpu_s(evidence.speeds(one)[0])
    if needed_s < LEAST_CPU_S or used_s >= needed_s * (1 - needs.allowance):
        return None
    return (
        f"{numbers.seconds(used_s)} of CPU for each transaction, but the task needs {numbers.seconds(needed_s)}: "
        "the work is not done, or done outside of the server's processes"
    )


def _littles_law(one: Round, _: Evidence) -> str | None:
    """Rate times response time is the number of users (Little, Operations Research 9, 1961).

    Of each user as far as it is known: from the beginning to its last answer it has waited all the time.
    """
    spans, took_s = one.spans, np.asarray(one.record.transactions.siege_s, dtype=float)
    there_s = float(spans.ended_s[spans.last].sum())
    if len(took_s) < FEWEST_FOR_A_MEAN or not there_s:
        return None
    users = int(spans.last.sum())
    inside = users * float(took_s.sum()) / there_s
    allowed = users * (ACCURACY + DRIFT_OF_RATES + SIEGE_STEP_S * len(took_s) / there_s)
    if inside > users + allowed:
        return (
            f"siege's response times add up to {inside:.1f} requests at a time, but there are {users} users: "
            "its figures contradict each other"
        )
    if inside < users - allowed and not one.record.socket_failures:
        return (
            f"siege's response times add up to only {inside:.1f} requests at a time of {users} users: "
            "it did not ask as often as it could, so that the server might do more"
        )
    return _never_answered(one)


def _never_answered(one: Round) -> str | None:
    """Users that are stuck while others come round and round."""
    answered = int(one.spans.first.sum())
    rounds_of_others = len(one.spans.ended_s) / max(1, answered)
    if answered == one.record.users or rounds_of_others < CYCLES_OF_OTHERS:
        return None
    return (
        f"{one.record.users - answered} of {one.record.users} users never got an answer, while the others got "
        f"{rounds_of_others:.0f} each: the rate is that of fewer users"
    )


def _availability(one: Round, _: Evidence) -> str | None:
    unchecked = sum(bool(code) for code in one.record.checks.code)
    missed, asked = one.attempts - one.completed + unchecked, one.attempts + len(one.record.checks.code)
    if not missed:
        return None
    problems = [problem for problem in one.record.checks.problem if problem]
    example = f", such as: {problems[0]}" if problems else ""
    return (
        f"{missed} of {asked} requests got no right answer{example}; the rate counts only the others, "
        "and errors may have come sooner than work would have"
    )


def _unanswered_pings(one: Round, _: Evidence) -> str | None:
    problems = [problem for problem in one.record.pings.problem if problem]
    if not problems:
        return None
    return f"{len(problems)} of {len(one.record.pings.problem)} pings got no right answer; the first: {problems[0]}"


def _starved_generator(one: Round, _: Evidence) -> str | None:
    record, machine = one.record, one.record.machine
    generator_s = (record.siege_cpu_s or 0.0) + (record.bench_cpu_s or 0.0)
    if machine is None or not machine.total_s or generator_s <= GENERATOR * machine.total_s:
        return None
    return (
        f"siege and the bench took {100 * generator_s / machine.total_s:.0f} % of the machine's CPUs, more than "
        f"{100 * GENERATOR:.0f} %: the server might do more; take a longer task, or fewer users"
    )


def _late_probe(one: Round, _: Evidence) -> str | None:
    pings = one.record.pings
    if not pings.due_s:
        return None
    delays_s = np.subtract(pings.sent_s, pings.due_s)
    if delays_s.max() <= LATE_S:
        return None
    late_s = float(np.percentile(delays_s, 99))
    p99_s = float(np.percentile(pings.waited_s, 99))
    if late_s <= LATE_S or late_s < p99_s / 2:
        return None
    return (
        f"pings were sent {numbers.seconds(late_s)} late, which is much of their {numbers.seconds(p99_s)}: "
        "that is this program's own delay; close other programs and measure again"
    )


def _unknown_lines(one: Round, _: Evidence) -> str | None:
    if not one.record.siege_unknown:
        return None
    first = next(iter(one.record.siege_unknown_lines), "not kept")
    return f"siege printed {one.record.siege_unknown} lines that are not known; the first: {first}"


def _too_short(one: Round, _: Evidence) -> str | None:
    return one.rate.too_short if one.rate.per_s is None else None


def _no_ceiling(one: Round, _: Evidence) -> str | None:
    """Without a ceiling a lie would have no limit."""
    if one.ceiling is not None and (one.ceiling.rate.per_s is not None and one.ceiling.record.failure is None):
        return None
    why = "was not measured"
    if one.ceiling is not None and one.ceiling.record.failure is not None:
        why = f"failed: {one.ceiling.record.failure.message}"
    elif one.ceiling is not None:
        why = f"has no rate: {one.ceiling.rate.too_short}"
    return f"the ceiling {why}; without it nothing says what is possible here"


def _doubtful_ceiling(one: Round, evidence: Evidence) -> str | None:
    if one.ceiling is None or one.ceiling is one:
        return None
    about_itself = (_busy_machine, _littles_law, _availability)
    doubts = [message for look in about_itself if (message := look(one.ceiling, evidence)) is not None]
    return f"its ceiling is itself in doubt: {doubts[0]}" if doubts else None


def _unsteady_ceiling(one: Round, evidence: Evidence) -> str | None:
    """More than the ceiling of its round, but not more than the ceilings of the rounds differ themselves."""
    share = evidence.weather.of_ceiling(one)
    if share is None or share <= 1 + ACCURACY + DRIFT_OF_RATES or _above_ceiling(one, evidence):
        return None
    allowed = evidence.allowed_above_ceiling(one)
    return (
        f"{_beside_ceiling(one, share)}, but up to {100 * allowed:.0f} % more may be noise here: "
        "something disturbed the bare case; measure again"
    )


def _blind(one: Round, evidence: Evidence) -> str | None:
    """The smallest lies that could still be seen, where these are too large."""
    hidden = []
    needs = evidence.needs(one)
    if needs is None:
        hidden.append("an answer without any work (how long the task takes alone is not known)")
    elif needs.allowance > SIGHT_OF_RUNS:
        hidden.append(f"an answer in {100 * max(0.0, 1 - needs.allowance):.0f} % of the time that the task takes")
    if one.ceiling is not None and one.ceiling.rate.per_s is not None:
        allowed = evidence.allowed_above_ceiling(one)
        if allowed > SIGHT_OF_RATES:
            hidden.append(f"a rate of {numbers.significant(1 + allowed, 2)} times what is possible")
    return f"too noisy to tell the truth from a lie: {' and '.join(hidden)} would not be seen" if hidden else None


RULES = (
    Rule("busy_machine", UNCLEAR, _busy_machine),
    Rule("unsteady_machine", UNCLEAR, _unsteady_machine),
    Rule("above_ceiling", SUSPECT, _above_ceiling),
    Rule("too_fast", SUSPECT, _too_fast),
    Rule("too_cheap", SUSPECT, _too_cheap),
    Rule("littles_law", SUSPECT, _littles_law),
    Rule("availability", SUSPECT, _availability),
    Rule("pings", SUSPECT, _unanswered_pings),
    Rule("generator", SUSPECT, _starved_generator),
    Rule("late_probe", SUSPECT, _late_probe),
    Rule("unknown_lines", SUSPECT, _unknown_lines),
    Rule("too_short", UNCLEAR, _too_short),
    Rule("no_ceiling", UNCLEAR, _no_ceiling),
    Rule("doubtful_ceiling", UNCLEAR, _doubtful_ceiling),
    Rule("unsteady_ceiling", UNCLEAR, _unsteady_ceiling),
    Rule("blind", UNCLEAR, _blind),
)
_VERDICTS = {rule.code: rule.verdict for rule in RULES}
