"""The footnote of a comparison: how its figures are to be read, and how they were measured."""

from collections.abc import Sequence

from common.record import Result
from common.report import numbers
from common.report.columns import FIGURES, figures, varying
from common.report.summary import Comparison, Summary


def footnote(result: Result, comparison: Comparison) -> str:
    """Two lines: how to read the figures, and what all cases have in common."""
    records = result.records
    kinds = {kind for record in records for kind in record.memory_kind.split("+") if kind}
    rounds = max(summary.rounds for summary in (*comparison.cases, *comparison.ceilings))
    facts = [
        *_common(comparison.cases or comparison.ceilings),
        f"{rounds} {'rounds' if rounds > 1 else 'round'} of {numbers.duration(records[0].time_s)}",
        f"{result.environment.usable_cpus} CPUs",
        f"memory is {'+'.join(sorted(kinds)).upper()}" if kinds else "",
        _generator_share(result),
        f"seed {result.seed}",
    ]
    cases = comparison.cases
    starred = any(cell.best for one in cases for cell in figures(one, cases, FIGURES))
    interval = "± 95 % confidence interval over the rounds" if rounds > 1 else "one round has no interval"
    return (
        " · ".join(filter(None, ["* best of its column" if starred else "", interval]))
        + "\n"
        + " · ".join(filter(None, facts))
    )


def _generator_share(result: Result) -> str:
    """What measuring itself took of all CPUs."""
    used_s = sum((record.siege_cpu_s or 0) + (record.bench_cpu_s or 0) for record in result.records if record.machine)
    total_s = sum(record.machine.total_s for record in result.records if record.machine)
    return f"siege and measuring took {100 * used_s / total_s:.1f} % of the CPUs" if total_s else ""


def _common(cases: Sequence[Summary]) -> list[str]:
    """What all cases have in common, so that it needs no column."""
    first, differing = cases[0], varying(cases)
    texts = {"task": first.task, "users": f"{first.users} users", "python": f"Python {first.python}"}
    return [text for name, text in texts.items() if name not in differing]
