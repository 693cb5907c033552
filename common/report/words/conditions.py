"""Under which conditions something was measured, in a line that stands with every picture of it."""

from collections.abc import Sequence

from common.model.case import axis
from common.model.record import Record, Result
from common.report import numbers
from common.report.judging.summary import Summary
from common.report.words.naming import cases_of, in_words, varying


def of_siege(result: Result, cases: Sequence[Summary]) -> str:
    """Of the cases of one picture: `primes · 25 users · Python 3.11.7 · 2 cores · 2 rounds of 4 s`."""
    points = {case.case for case in cases}
    records = [record for record in result.records if record.case in points]
    rounds = max((case.rounds for case in cases), default=0)
    facts = [*in_common(cases), cores(result), rounds_of(rounds, records) if records else ""]
    return " · ".join(filter(None, facts))


def of_traces(result: Result) -> str:
    """`primes · 8 requests at the same moment · 2 cores`."""
    requests = max((len(trace.requests.sent_s) for trace in result.traces), default=0)
    seen: dict[str, dict[str, None]] = {}
    for name, value in (pair for trace in result.traces for pair in trace.case.values):
        seen.setdefault(name, {})[axis(name).told(value)] = None
    same = [*(next(iter(told)) for name, told in seen.items() if len(told) == 1 and name not in ("workers", "users"))]
    return " · ".join([*same, f"{requests} request{'s'[: requests != 1]} at the same moment", cores(result)])


def cores(result: Result) -> str:
    """How many there were, so that `every core` is a number."""
    count = result.environment.usable_cpus
    return f"{count} {'core' if count == 1 else 'cores'}"


def in_common(cases: Sequence[Summary]) -> list[str]:
    """What all cases have in common, so that it needs no column."""
    first, differing = cases[0].case, varying(cases_of(cases))
    return [in_words(first, [name]) for name, _ in first.values if name not in (*differing, "workers")]


def rounds_of(rounds: int, records: Sequence[Record]) -> str:
    """`2 rounds of 3 s to 6 s`."""
    known_s = sorted(record.load_s or record.time_s for record in records)
    shortest, longest = (_briefly(value_s) for value_s in (known_s[0], known_s[-1]))
    times = longest if shortest == longest else f"{shortest} to {longest}"
    return f"{rounds} {'rounds' if rounds > 1 else 'round'} of {times}"


def _briefly(value_s: float) -> str:
    """In whole seconds, unless there are hardly any."""
    return numbers.duration(round(value_s) if value_s >= 2 else round(value_s, 1))
