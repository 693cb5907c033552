"""The footnote of a comparison: how its figures are to be read, and how they were measured."""

from collections.abc import Sequence

from common.model.record import Record, Result
from common.report import numbers
from common.report.judging.comparison import Comparison
from common.report.judging.summary import Summary
from common.report.words.naming import cases_of, in_words, varying


def footnote(result: Result, comparison: Comparison) -> str:
    """Two lines: how to read the figures, and what all cases have in common."""
    records = result.records
    kinds = {kind for record in records for kind in record.memory_kind.split("+") if kind}
    rounds = max(summary.rounds for summary in (*comparison.cases, *comparison.ceilings))
    facts = [
        result.suite.source if result.suite else "",
        *_common(comparison.cases or comparison.ceilings),
        f"{rounds} {'rounds' if rounds > 1 else 'round'} of {_times(records)}",
        f"{result.environment.usable_cpus} CPUs",
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


def _times(records: Sequence[Record]) -> str:
    """How long the sieges lasted."""
    known_s = sorted(record.load_s or record.time_s for record in records)
    shortest, longest = (numbers.duration(round(value_s)) for value_s in (known_s[0], known_s[-1]))
    return longest if shortest == longest else f"{shortest} to {longest}"


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
        f"rank, ± and share of the ceiling are those at the machine's usual speed (corrected by up to "
        f"{100 * max(shifts):.0f} %; --uncorrected shows the difference), trans/s is as measured"
    )


def _generator_share(result: Result) -> str:
    """What measuring itself took of all CPUs."""
    watched = [record for record in result.records if record.machine]
    used_s = sum((record.tool_cpu_s or 0) + (record.bench_cpu_s or 0) for record in watched)
    total_s = sum(record.machine.total_s for record in watched if record.machine)
    tools = ", ".join(sorted({record.tool for record in watched}))
    return f"{tools} and measuring took {100 * used_s / total_s:.1f} % of the CPUs" if total_s else ""


def _common(cases: Sequence[Summary]) -> list[str]:
    """What all cases have in common, so that it needs no column."""
    first, differing = cases[0].case, varying(cases_of(cases))
    return [in_words(first, [name]) for name, _ in first.values if name not in (*differing, "workers")]
