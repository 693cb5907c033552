"""The verdict: `ok`, `suspect` or `failed`, from records alone, so that old results can be judged again.

Each rule looks at one round and says what it saw, what it compared that with, and the likely cause.
What is allowed for noise comes from the data: how far the bare case, and single runs of the task, differed themselves.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from common.report import numbers
from common.report.intervals import ACCURACY
from common.report.rounds import Round
from common.report.spans import SIEGE_STEP_S

OK, SUSPECT, FAILED = "ok", "suspect", "failed"

# Shares of all CPUs. On a quiet machine other work takes less than 0.01, and siege and the bench 0.01 to 0.02.
OTHER_WORK, STEAL, GENERATOR = 0.05, 0.02, 0.10
FEWEST_FOR_A_MEAN = 5  # answers
LATE_S = 0.010  # pings sent later than this say more of this program than of the server
FAST_SHARE = 0.05  # so many answers may look too fast because the line before them was read late
LEAST_CPU_S = 0.001  # what the CPU clock can tell from nothing
# How far the speed of a shared machine drifts from one minute to the next, as was seen on one; what the rounds show
# themselves comes on top. The rates of two cases drift apart less, because each is a mean over seconds.
DRIFT_OF_RATES, DRIFT_OF_RUNS = 0.03, 0.25


class Reason(msgspec.Struct, frozen=True):
    """Why a verdict is not `ok`."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Reference:
    """What all rounds of the bare case say: how long the task takes alone, and how far equal things differed."""

    alone_s: float | None  # the fastest single run
    alone_cpu_s: float | None  # the one that took the least CPU
    spread_of_rates: float  # as a fraction
    spread_of_runs: float


Rule = Callable[[Round, Reference], Reason | None]


def judge(rounds: Sequence[Round]) -> list[Reason]:
    """Every reason not to take the case at face value, the gravest first. What failed is not judged further."""
    bare = reference_of(rounds)
    failures = list(_found(_failure, rounds, bare))
    return failures or [reason for rule in _SUSPICIONS for reason in _found(rule, rounds, bare)]


def verdict_of(reasons: Sequence[Reason]) -> str:
    """The verdict that the reasons add up to."""
    if not reasons:
        return OK
    return SUSPECT if all(reason.code in SUSPICIONS for reason in reasons) else FAILED


def reference_of(rounds: Sequence[Round]) -> Reference:
    """From all rounds of the bare case; the spread of its rates from the quarters of a single one."""
    bare = [one.ceiling for one in rounds if one.ceiling is not None]
    rates = [one.rate.per_s for one in bare if one.rate.per_s]
    if len(rates) == 1:
        rates = bare[0].rates_of_quarters()
    walls = [wall_s for one in bare for wall_s in one.record.alone_wall_s]
    cpus = [cpu_s for one in bare for cpu_s in one.record.alone_cpu_s]
    return Reference(min(walls, default=None), min(cpus, default=None), _spread(rates), _spread(walls))


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / min(values) if values else 0.0


def _found(rule: Rule, rounds: Sequence[Round], bare: Reference) -> Iterator[Reason]:
    """What a rule finds in the rounds; the same code only once, the first round stands for the others."""
    told = set()
    for one in rounds:
        reason = rule(one, bare)
        if reason is not None and reason.code not in told:
            told.add(reason.code)
            where = f"round {one.record.round}: " if len(rounds) > 1 else ""
            yield Reason(reason.code, where + reason.message)


def _failure(one: Round, _: Reference) -> Reason | None:
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


def _busy_machine(one: Round, _: Reference) -> Reason | None:
    """The machine had other work. First among the suspicions, because it explains others."""
    record, machine = one.record, one.record.machine
    if machine is None or not machine.total_s:
        return None
    ours_s = (one.server_cpu_s() or 0.0) + (record.siege_cpu_s or 0.0) + (record.bench_cpu_s or 0.0)
    other, steal = (machine.busy_s - ours_s) / machine.total_s, machine.steal_s / machine.total_s
    if other <= OTHER_WORK and steal <= STEAL:
        return None
    return Reason(
        "busy_machine",
        f"other work took {100 * max(0, other):.0f} % of the machine's CPUs, and {100 * steal:.0f} % were stolen by "
        "other guests of its host: the rate tells of that, too; close other programs and measure again",
    )


def _above_ceiling(one: Round, bare: Reference) -> Reason | None:
    share = one.of_ceiling
    if share is None or share <= 1 + ACCURACY + DRIFT_OF_RATES + bare.spread_of_rates:
        return None
    return Reason(
        "above_ceiling",
        f"{_beside_ceiling(one, share)}: answers were sent before the work was done, or without it; "
        "look whether every result is awaited",
    )


def _unsteady_ceiling(one: Round, bare: Reference) -> Reason | None:
    """More than the ceiling of its round, but not more than the ceilings of the rounds differ themselves."""
    share = one.of_ceiling
    if share is None or share <= 1 + ACCURACY + DRIFT_OF_RATES or _above_ceiling(one, bare):
        return None
    return Reason(
        "unsteady_ceiling",
        f"{_beside_ceiling(one, share)}, but the ceilings of the rounds differ by {100 * bare.spread_of_rates:.0f} % "
        "themselves: something disturbed the bare case; measure again",
    )


def _beside_ceiling(one: Round, share: float) -> str:
    assert one.ceiling is not None
    return (
        f"{numbers.rate(one.rate.per_s or 0)}/s is {numbers.significant(share)} times the ceiling of "
        f"{numbers.rate(one.ceiling.rate.per_s or 0)}/s"
    )


def _too_fast(one: Round, bare: Reference) -> Reason | None:
    """An answer sooner than the task takes alone: from the idle server, at a check, or too often under load."""
    if bare.alone_s is None:
        return None
    least_s = bare.alone_s * (1 - DRIFT_OF_RUNS - bare.spread_of_runs)
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
    return Reason(
        "too_fast",
        f"an answer came after {numbers.seconds(soonest_s)}, but the task alone takes "
        f"{numbers.seconds(bare.alone_s)}: the answer did not wait for the work; "
        "look whether it comes from a cache, or before the work",
    )


def _too_cheap(one: Round, bare: Reference) -> Reason | None:
    """Less CPU for a transaction than the task needs."""
    used_s, needed_s = one.cpu_s_per_transaction(), bare.alone_cpu_s
    if used_s is None or needed_s is None or needed_s < LEAST_CPU_S:
        return None
    if used_s >= needed_s * (1 - DRIFT_OF_RUNS - max(bare.spread_of_runs, bare.spread_of_rates)):
        return None
    return Reason(
        "too_cheap",
        f"{numbers.seconds(used_s)} of CPU for each transaction, but the task needs {numbers.seconds(needed_s)}: "
        "the work is not done, or done outside of the server's processes",
    )


def _littles_law(one: Round, _: Reference) -> Reason | None:
    """Rate times response time is at most the number of users (Little, Operations Research 9, 1961)."""
    users, took_s = one.record.users, one.steady_siege_s()
    if one.rate.per_s is None or len(took_s) < FEWEST_FOR_A_MEAN:
        return None
    mean_s, standard_error_s = float(took_s.mean()), float(took_s.std(ddof=1)) / len(took_s) ** 0.5
    allowed = users * (1 + ACCURACY + DRIFT_OF_RATES)
    if one.rate.per_s * mean_s <= allowed:
        return None  # so it is without the harness's own requests
    rate = one.rate_of_users()
    inside = (rate or 0.0) * mean_s
    if rate is None or inside <= allowed + rate * (2 * standard_error_s + SIEGE_STEP_S):
        return None
    return Reason(
        "littles_law",
        f"{numbers.rate(rate)}/s with a response time of {numbers.seconds(mean_s)} would be "
        f"{inside:.1f} requests at a time, but there are {users} users: siege's figures contradict each other",
    )


def _availability(one: Round, _: Reference) -> Reason | None:
    unchecked = sum(bool(code) for code in one.record.checks.code)
    missed, asked = one.attempts - one.completed + unchecked, one.attempts + len(one.record.checks.code)
    if not missed:
        return None
    problems = [problem for problem in one.record.checks.problem if problem]
    example = f", such as: {problems[0]}" if problems else ""
    return Reason(
        "availability",
        f"{missed} of {asked} requests got no right answer{example}; the rate counts only the others, "
        "and errors may have come sooner than work would have",
    )


def _too_short(one: Round, _: Reference) -> Reason | None:
    return Reason("too_short", one.rate.too_short) if one.rate.per_s is None else None


def _unanswered_pings(one: Round, _: Reference) -> Reason | None:
    problems = [problem for problem in one.record.pings.problem if problem]
    if not problems:
        return None
    count = f"{len(problems)} of {len(one.record.pings.problem)} pings"
    return Reason("pings", f"{count} got no right answer; the first: {problems[0]}")


def _starved_generator(one: Round, _: Reference) -> Reason | None:
    record, machine = one.record, one.record.machine
    generator_s = (record.siege_cpu_s or 0.0) + (record.bench_cpu_s or 0.0)
    if machine is None or not machine.total_s or generator_s <= GENERATOR * machine.total_s:
        return None
    return Reason(
        "generator",
        f"siege and the bench took {100 * generator_s / machine.total_s:.0f} % of the machine's CPUs, more than "
        f"{100 * GENERATOR:.0f} %: the server might do more; take a longer task, or fewer users",
    )


def _late_probe(one: Round, _: Reference) -> Reason | None:
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
    return Reason(
        "late_probe",
        f"pings were sent {numbers.seconds(late_s)} late, which is much of their {numbers.seconds(p99_s)}: "
        "that is this program's own delay; close other programs and measure again",
    )


def _unknown_lines(one: Round, _: Reference) -> Reason | None:
    if not one.record.siege_unknown:
        return None
    first = one.record.siege_unknown_lines[0]
    return Reason(
        "unknown_lines", f"siege printed {one.record.siege_unknown} lines that are not known; the first: {first}"
    )


_SUSPICIONS: tuple[Rule, ...] = (
    _busy_machine,
    _above_ceiling,
    _unsteady_ceiling,
    _too_fast,
    _too_cheap,
    _littles_law,
    _availability,
    _too_short,
    _unanswered_pings,
    _starved_generator,
    _late_probe,
    _unknown_lines,
)
SUSPICIONS = {
    "busy_machine",
    "above_ceiling",
    "unsteady_ceiling",
    "too_fast",
    "too_cheap",
    "littles_law",
    "availability",
    "too_short",
    "pings",
    "generator",
    "late_probe",
    "unknown_lines",
}
