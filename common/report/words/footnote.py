"""The footnote of a comparison: how to read its figures, and how they were measured."""

from common.model.record import Result
from common.report.judging.comparison import Comparison
from common.report.words.conditions import cores, in_common, rounds_of


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
