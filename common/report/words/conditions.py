"""The conditions of a measurement, as one line for captions and footnotes."""

from collections.abc import Sequence

from common.model.case import axis
from common.model.record import Record, Result
from common.report import numbers
from common.report.judging.summary import Summary
from common.report.words.naming import cases_of, in_words, varying


def of_siege(result: Result, cases: Sequence[Summary]) -> str:
    """Return the conditions of a chart: `primes · 25 users · Python 3.11.7 · 2 cores · 2 rounds of 4 s`."""
    points = {case.case for case in cases}
    records = [record for record in result.records if record.case in points]
    facts = [*in_common(cases), cores(result), rounds_of(cases, records) if records else ""]
    return " · ".join(filter(None, facts))


def of_traces(result: Result) -> str:
    """Return the conditions of traces: `primes · 8 requests at the same moment · 2 cores`."""
    requests = max((len(trace.requests.sent_s) for trace in result.traces), default=0)
    seen: dict[str, dict[str, None]] = {}
    for name, value in (pair for trace in result.traces for pair in trace.case.values):
        seen.setdefault(name, {})[axis(name).told(value)] = None
    same = [*(next(iter(told)) for name, told in seen.items() if len(told) == 1 and name not in ("workers", "users"))]
    return " · ".join([*same, f"{requests} request{'s'[: requests != 1]} at the same moment", cores(result)])


def cores(result: Result) -> str:
    """Return the number of cores."""
    count = result.environment.usable_cpus
    return f"{count} {'core' if count == 1 else 'cores'}"


def in_common(cases: Sequence[Summary]) -> list[str]:
    """Return the values that all cases share."""
    first, differing = cases[0].case, varying(cases_of(cases))
    return [in_words(first, [name]) for name, _ in first.values if name not in (*differing, "workers")]


def rounds_of(cases: Sequence[Summary], records: Sequence[Record]) -> str:
    """Return how often and how long each case was measured: `2 to 5 rounds of 3 s to 6 s`."""
    fewest, most = min(case.rounds for case in cases), max(case.rounds for case in cases)
    known_s = sorted(record.load_s or record.time_s for record in records)
    shortest, longest = (_briefly(value_s) for value_s in (known_s[0], known_s[-1]))
    times = longest if shortest == longest else f"{shortest} to {longest}"
    count = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"{count} {'rounds' if most > 1 else 'round'} of {times}"


def _briefly(value_s: float) -> str:
    """Return whole seconds from 2 s on, and tenths below."""
    return numbers.duration(round(value_s) if value_s >= 2 else round(value_s, 1))
