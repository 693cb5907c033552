"""The footnote of a comparison: how its figures are to be read, and how they were measured."""

from common.model.record import Result
from common.report.judging.comparison import Comparison
from common.report.words.conditions import cores, in_common, rounds_of


def footnote(result: Result, comparison: Comparison) -> str:
    """Two lines: how to read the figures, and what all cases have in common."""
    records = result.records
    kinds = {kind for record in records for kind in record.memory_kind.split("+") if kind}
    rounds = max(summary.rounds for summary in (*comparison.cases, *comparison.ceilings))
    facts = [
        result.suite.source if result.suite else "",
        *in_common(comparison.cases or comparison.ceilings),
        rounds_of(rounds, records),
        cores(result),
        f"memory is {'+'.join(sorted(kinds)).upper()}" if kinds else "",
        _generator_share(result),
        f"seed {result.seed}",
    ]
    starred = any(one.best for one in comparison.cases)
    interval = "± 95 % confidence interval" if rounds > 1 else "one round has no interval"
    star = "* nothing is better, beyond noise" if starred else ""
    how_to_read = [star, interval, _correction(comparison), _speed(comparison)]
    return " · ".join(filter(None, how_to_read)) + "\n" + " · ".join(filter(None, facts))


def _speed(comparison: Comparison) -> str:
    known = any(case.speed for case in comparison.cases)
    return "speed is that of the machine, against its usual one" if known else ""


def _correction(comparison: Comparison) -> str:
    """What was corrected for the machine's speed, and by how much."""
    shifts = [
        abs(case.rate_at_usual_speed_per_s / case.rate_per_s.mean - 1)
        for case in (*comparison.ceilings, *comparison.cases)
        if case.rate_at_usual_speed_per_s and case.rate_per_s
    ]
    if not shifts:
        return ""
    return (
        f"rank, ±, stars and share of the ceiling are those at the machine's usual speed, its mean over this run "
        f"(corrected by up to {100 * max(shifts):.0f} %; --uncorrected shows the difference); "
        "trans/s, response and CPU are as measured"
    )


def _generator_share(result: Result) -> str:
    """What measuring itself took of all CPUs."""
    watched = [record for record in result.records if record.machine]
    used_s = sum((record.tool_cpu_s or 0) + (record.bench_cpu_s or 0) for record in watched)
    total_s = sum(record.machine.total_s for record in watched if record.machine)
    tools = ", ".join(sorted({record.tool for record in watched}))
    return f"{tools} and measuring took {100 * used_s / total_s:.1f} % of the cores" if total_s else ""
