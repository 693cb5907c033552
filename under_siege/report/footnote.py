"""The footnote of a comparison: how to read its figures, and how they were measured."""

from collections.abc import Sequence

from under_siege import formatting
from under_siege.analysis.report_data import Comparison
from under_siege.analysis.summary import Summary
from under_siege.model.case import axis
from under_siege.model.record import Record, Result
from under_siege.report.labels import cases_of, in_words, varying


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
    return formatting.duration(round(value_s) if value_s >= 2 else round(value_s, 1))


def footnote(result: Result, comparison: Comparison) -> str:
    """Return two lines: how to read the figures, and what all cases have in common."""
    records = result.records
    kinds = {kind for record in records for kind in record.memory_kind.split("+") if kind}
    shown = [*comparison.cases, *comparison.ceilings]
    facts = [
        result.suite.source if result.suite else "",
        *in_common(comparison.cases or comparison.ceilings),
        rounds_of(shown, records),
        cores(result),
        f"memory is {'+'.join(sorted(kinds)).upper()}" if kinds else "",
        _load_tool_share(result),
        f"seed {result.seed}",
    ]
    starred = any(one.best for one in comparison.cases)
    star = "* not significantly worse than the best in its column" if starred else ""
    how_to_read = [star, _interval([one.rounds for one in shown]), _adjustment(comparison), _speed(comparison)]
    return " · ".join(filter(None, how_to_read)) + "\n" + " · ".join(filter(None, facts))


def _interval(rounds: list[int]) -> str:
    interval = "± 95 % confidence interval"
    if max(rounds) == 1:
        return f"{interval}; one round: assumes the usual 5 % between rounds"
    return f"{interval}; cases with one round: assumes the noise of the others" if min(rounds) == 1 else interval


def _speed(comparison: Comparison) -> str:
    known = any(case.speed for case in comparison.cases)
    return "speed: CPU speed compared with its mean over this run" if known else ""


def _adjustment(comparison: Comparison) -> str:
    """Return which figures are adjusted for the speed of the CPUs, and by how much."""
    shifts = [
        abs(case.rate_at_usual_speed_per_s / case.rate_per_s.mean - 1)
        for case in (*comparison.ceilings, *comparison.cases)
        if case.rate_at_usual_speed_per_s and case.rate_per_s
    ]
    if not shifts:
        return ""
    return (
        "rank, ±, stars and share of the ceiling are speed-adjusted "
        f"(by up to {100 * max(shifts):.0f} %; --uncorrected turns this off); "
        "trans/s, response and CPU are as measured"
    )


def _load_tool_share(result: Result) -> str:
    """Return the share of CPU time that the load tool and the bench used."""
    watched = [record for record in result.records if record.machine]
    used_s = sum((record.tool_cpu_s or 0) + (record.bench_cpu_s or 0) for record in watched)
    total_s = sum(record.machine.total_s for record in watched if record.machine)
    tools = ", ".join(sorted({record.tool for record in watched}))
    return f"{tools} and the bench used {100 * used_s / total_s:.1f} % of CPU time" if total_s else ""
