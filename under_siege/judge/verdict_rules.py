"""Rules that mark a case `failed`, `suspect` or `unclear`. They use only records, so they can judge old results, too.

Rules for single responses check one round at a time; rules for rates check the interval over all rounds of a case.
Noise widens this interval, which makes the case `unclear` only if the interval includes impossible values or is too
wide to be useful. A rule is skipped if the load tool or the target does not report the values that the rule needs.

Limits are compared with intervals, not estimates (two one-sided tests: Schuirmann, J. Pharmacokinet. Biopharm. 15,
1987). A case is flagged if its whole interval is above a limit, and cleared if the interval excludes every excess
that matters.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import msgspec
import numpy as np

from under_siege import formatting
from under_siege.judge import suspicions
from under_siege.judge.estimates import Estimate, ratio, student_at
from under_siege.judge.round_statistics import Round
from under_siege.judge.speed_correction import other_work
from under_siege.judge.suspicions import Evidence
from under_siege.record.requests import CORRECT, WRONG

CaseEstimates = Mapping[str, Estimate | None]  # by metric
OK, SUSPECT, UNCLEAR, FAILED = "ok", "suspect", "unclear", "failed"

SURE, LIKELY = 0.9995, 0.95  # probabilities of the one-sided bounds for `suspect` and for `ok`
# An excess up to the first limit may be a measurement error. A case is `unclear` if its interval extends beyond the
# second limit.
TOLERATED_RATE, MOST_RATE = math.log(1.04), math.log(1.20)
TOLERATED_CPU, MOST_CPU = math.log(1.06), math.log(1.20)
LEAST_CPU_S = 0.001  # tasks with less CPU time are not checked: it is the resolution of the CPU clock
USELESS = 2.0  # maximum ratio of the upper to the lower end of an interval; beyond it, the interval is too wide
ENOUGH_RESPONSES = 30  # with fewer, a wide interval is due to their number
MOST_OF_OTHERS = 0.5  # if other programs use a larger share of all CPU time, corrections for it are guesses
HARDLY = 0.1  # CPU time as a share of a task's duration; below it, the CPU time of a response proves little


class Reason(msgspec.Struct, frozen=True):
    """A reason why a verdict is not `ok`."""

    code: str
    message: str


class Excess(NamedTuple):
    """How far a case exceeds a limit; the last three fields are logarithms of ratios."""

    value: float
    limit: float
    estimate: float
    least: float  # lower bound, based on the typical noise of all cases, so that a noisy server can't hide an excess
    most: float


def _excess(value: float, limit: float, over: Estimate) -> Excess:
    margin = student_at(over.typical_degrees, SURE) * over.typical_variance**0.5
    return Excess(value, limit, over.log, over.log - margin, over.bound(LIKELY))


class JudgedCase:
    """The rounds of a case, and the limits that they are compared with."""

    def __init__(self, rounds: Sequence[Round], estimates: CaseEstimates, evidence: Evidence) -> None:
        self.rounds = rounds
        self.knows_task = evidence.needs(rounds[0]) is not None  # whether the task was run by itself
        self.rate = estimates.get("rate_per_s")
        both = [each for measured in rounds for each in (measured, measured.ceiling) if each]
        self.is_settled = all(each.rate.is_settled for each in both)
        # A ceiling without a server needs no proof of its work, because the bench itself performs the task.
        self.is_server = not suspicions.has_no_server(rounds[0])
        self.rate_excess: Excess | None = None  # how far the rate exceeds the ceiling
        self.cpu_excess: Excess | None = None  # how far the CPU time of the task exceeds that of a response
        if not self.is_server:
            return
        share, is_paced = estimates.get("of_ceiling"), any(map(suspicions.paced_by_the_tool, rounds))
        if self.rate and share and share.degrees and self.is_settled and not is_paced:
            self.rate_excess = _excess(self.rate.mean, self.rate.mean / share.mean, share)
        cpu, need = estimates.get("cpu_s_per_transaction"), evidence.cpu_need(rounds[0])
        wall_s = sum(sum(measured.record.alone_wall_s) for measured in rounds)
        computes = not wall_s or sum(sum(measured.record.alone_cpu_s) for measured in rounds) > HARDLY * wall_s
        if cpu and cpu.degrees and need and need.mean >= LEAST_CPU_S and computes:
            self.cpu_excess = _excess(cpu.mean, need.mean, ratio(need, cpu))


def above_ceiling(judged: JudgedCase) -> str | None:
    """Report a case whose rate is significantly above the ceiling."""
    excess = judged.rate_excess
    if excess is None or excess.least <= TOLERATED_RATE:
        return None
    return (
        f"{formatting.rate(excess.value)}/s is {_times(excess.estimate)} times the ceiling of "
        f"{formatting.rate(excess.limit)}/s: the server answered before the work was done, or without doing it; "
        "check that every result is awaited"
    )


def too_cheap(judged: JudgedCase) -> str | None:
    """Report a case that used significantly less CPU time than the task needs."""
    excess = judged.cpu_excess
    if excess is None or excess.least <= TOLERATED_CPU:
        return None
    return (
        f"a transaction used {formatting.seconds(excess.value)} of CPU time, but the task needs "
        f"{formatting.seconds(excess.limit)}: the server did not do the work, or other processes did; check for a "
        "cache or an external worker"
    )


def unverified(judged: JudgedCase) -> str | None:
    """Report that the work can't be verified, unless the case is already suspected of skipping it."""
    if above_ceiling(judged) or too_cheap(judged):
        return None
    doubts, has_task = [], judged.rounds[0].record.has_task and judged.is_server
    if has_task and not judged.knows_task:
        doubts.append("the duration of the task by itself is unknown")
    if judged.rate_excess and judged.rate_excess.most > MOST_RATE and has_task:
        doubts.append(
            f"the confidence interval of the rate extends to {_times(judged.rate_excess.most)} times the ceiling"
        )
    if judged.cpu_excess and judged.cpu_excess.most > MOST_CPU:
        doubts.append(f"the task may need up to {_times(judged.cpu_excess.most)} times the measured CPU time")
    return f"the measurements can't prove that the server did the work: {' and '.join(doubts)}" if doubts else None


def _times(log: float) -> str:
    return formatting.significant(math.exp(log), 3)


def too_short(judged: JudgedCase) -> str | None:
    """Return why no round has a rate, or why the rate may be far off, or None if the rounds are long enough."""
    if all(measured.rate.per_s is None for measured in judged.rounds):
        return judged.rounds[0].rate.too_short
    if judged.is_settled:
        return None
    return "the siege of this case or of its ceiling ended before nine of ten users had a response; use a longer --time"


def no_ceiling(judged: JudgedCase) -> str | None:
    """Return why there is no ceiling, although there should be one."""
    first, ceilings = judged.rounds[0], [measured.ceiling for measured in judged.rounds]
    if not first.record.has_ceiling or any(ceiling and ceiling.rate.per_s for ceiling in ceilings):
        return None
    why = "was not measured"
    if first.ceiling is not None:
        failure = first.ceiling.record.failure
        why = f"failed: {failure.message}" if failure else f"has no rate: {first.ceiling.rate.too_short}"
    return f"the ceiling {why}, so the rate can't be verified"


def busy_machine(judged: JudgedCase) -> str | None:
    """Report that other programs had most of the CPU time, so that a rate without them can't be known."""
    known = [run for run in judged.rounds if run.server_cpu_s() is not None or run.record.is_ceiling]
    # A used-up quota leaves a server the same CPU time, whatever others do on the machine, which may be a large host.
    shares = [0.0 if run.is_limited_by_its_quota() else other_work(run) for run in known]
    if not shares or median(shares) <= MOST_OF_OTHERS:
        return None
    return "other programs used more than half of the CPU time: close them, and run again"


def wide_interval(judged: JudgedCase) -> str | None:
    """Report a rate whose interval is too wide to be useful."""
    edges = judged.rate.interval() if judged.rate else None
    if edges is None or edges[1] <= USELESS * edges[0]:
        return None
    responses = sum(measured.completed for measured in judged.rounds)
    if responses < ENOUGH_RESPONSES:
        took_s = sum(measured.load_s or 0.0 for measured in judged.rounds)
        longer_s = 5 * math.ceil(took_s * ENOUGH_RESPONSES / max(1, responses) / len(judged.rounds) / 5)
        return (
            f"too few responses to tell the rate, {responses} in {formatting.seconds(took_s)}: use --time {longer_s}s"
        )
    return (
        f"the confidence interval of the rate is too wide, {formatting.rate(edges[0])}/s to "
        f"{formatting.rate(edges[1])}/s: run more rounds, or close other programs"
    )


GENERATOR = "generator"  # code of the rule about the CPU time of the load tool and the bench


class Rule(NamedTuple):
    """A check of single rounds or of a whole case, and the verdict of the case if the check returns a message."""

    code: str
    verdict: str
    of_round: Callable[[Round, Evidence], str | None] | None = None
    of_case: Callable[[JudgedCase], str | None] | None = None


RULES = (  # the most serious first, because they explain the others
    Rule("above_ceiling", SUSPECT, of_case=above_ceiling),
    Rule("too_fast", SUSPECT, suspicions.too_fast),
    Rule("too_cheap", SUSPECT, of_case=too_cheap),
    Rule("littles_law", SUSPECT, suspicions.littles_law),
    Rule("timer", SUSPECT, suspicions.timer),
    Rule("overload", SUSPECT, suspicions.overload),
    Rule("availability", SUSPECT, suspicions.availability),
    Rule("pings", SUSPECT, suspicions.unanswered_pings),
    Rule("backlog", SUSPECT, suspicions.backlog),
    Rule(GENERATOR, SUSPECT, suspicions.starved_generator),
    Rule("ports", SUSPECT, suspicions.no_ports),
    Rule("unknown_lines", SUSPECT, suspicions.unknown_lines),
    Rule("too_short", UNCLEAR, of_case=too_short),
    Rule("no_ceiling", UNCLEAR, of_case=no_ceiling),
    Rule("unverified", UNCLEAR, of_case=unverified),
    Rule("busy_machine", UNCLEAR, of_case=busy_machine),
    Rule("wide_interval", UNCLEAR, of_case=wide_interval),
)
_VERDICTS = {rule.code: rule.verdict for rule in RULES}


def judge(rounds: Sequence[Round], estimates: CaseEstimates, evidence: Evidence) -> list[Reason]:
    """Return every reason to distrust the case, the most serious first. Failed cases are not judged further."""
    failures: dict[str, Reason] = {}
    for measured in rounds:
        if (failure := _failure(measured)) is not None:
            code, message = failure
            failures.setdefault(code, Reason(code, _in_round(measured, rounds, message)))
    if failures:
        return list(failures.values())
    judged = JudgedCase(rounds, estimates, evidence)
    return [Reason(rule.code, text) for rule in RULES if (text := _message(rule, judged, evidence))]


def verdict_of(reasons: Sequence[Reason]) -> str:
    """Return the verdict of the most serious reason, or `ok` if there are no reasons."""
    verdicts = {_VERDICTS.get(reason.code, FAILED) for reason in reasons}
    return next((verdict for verdict in (FAILED, SUSPECT, UNCLEAR) if verdict in verdicts), OK)


def _message(rule: Rule, judged: JudgedCase, evidence: Evidence) -> str | None:
    """Apply the rule to the whole case or to each round, and return its first message, or None if there is none."""
    if rule.of_case:
        return rule.of_case(judged)
    for measured in judged.rounds:
        if rule.of_round and (message := rule.of_round(measured, evidence)):
            return _in_round(measured, judged.rounds, message)
    return None


def _in_round(measured: Round, rounds: Sequence[Round], message: str) -> str:
    return f"round {measured.record.round}: {message}" if len(rounds) > 1 else message


def _failure(measured: Round) -> tuple[str, str] | None:
    record = measured.record
    if record.failure is not None:
        return record.failure.code, record.failure.message
    if wrong := _wrong_answer(measured):
        return "wrong_answer", wrong
    has_events = measured.streams is not None and len(measured.streams.events_at_s) > 0
    if not measured.completed and (measured.attempts or not has_events):  # a long stream may outlast the load
        wrong = f"; {measured.attempts} requests got no correct response" if measured.attempts else ""
        wrong += suspicions.errors_of_the_tool(measured)
        return "no_transactions", f"no transaction completed in {measured.load_s:.1f} s of siege{wrong}"
    return None


def _wrong_answer(measured: Round) -> str | None:
    record = measured.record
    columns = measured.totals.columns
    expected = measured.record.answer_bytes
    checks, rows = measured.check_rows, measured.rows
    for problem in checks.problem[checks.outcome == WRONG]:
        return f"a response check under load failed: {problem}"
    wrong_rows = rows[rows.outcome == WRONG]
    pairs = zip(wrong_rows.status.tolist(), wrong_rows.request.tolist(), strict=True)
    # A wrong status only lowers the availability, even if it is the right status of another request.
    has_status = [record.outcome_of(status, expected, request) == CORRECT for status, request in pairs]
    if wrong_rows := wrong_rows[np.array(has_status, dtype=bool)]:
        count = int((~rows.is_open).sum())
        sizes, problem = wrong_rows.size_bytes, next(filter(None, wrong_rows.problem), "")
        first = problem or f"{sizes[0]} bytes long instead of {expected}"
        return f"{len(wrong_rows)} of {count} responses under load were wrong: the first was {first}"
    if contents := sum(columns.wrong_contents):
        return f"{contents} of {measured.attempts} responses under load had the right status but wrong contents"
    if odd := sum(filter(None, columns.odd_bytes)):
        wrong = f"some or all of the {measured.completed:,} responses under load were wrong"
        return f"{wrong}: the total size differs from that of the requested files by {odd:,} bytes"
    size, count = measured.totals.bytes_of_answers()
    # The byte count may include responses that were in flight at the end.
    if expected > 0 and count and abs(size - count * expected) > len(columns.took_s) * record.users * expected:
        wrong = f"some or all of the {count:,} responses under load were wrong"
        return f"{wrong}: responses were {size / count:.1f} bytes long on average instead of {expected}"
    return None
