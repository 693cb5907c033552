"""Compare the cases of a result: their summaries, and which are not significantly worse than the best in a metric.

Each case is compared with every other one, one-sided, at a level that is shared among the comparisons of a case with
all others (Edwards and Hsu, JASA 78, 1983). That takes fewer comparisons than all pairs, and so finds more.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from under_siege.analysis.summary import Summary, summary_of
from under_siege.checks.evidence import Evidence
from under_siege.checks.verdict import FAILED, OK
from under_siege.model.case import Value, load_axes
from under_siege.model.record import Result
from under_siege.stats.estimates import CONFIDENCE, Estimate, is_below, ratio
from under_siege.stats.metrics import MEASURES, Estimates, Measure, estimates_of, shares_of_ceiling
from under_siege.stats.rounds_data import Round, cases_of
from under_siege.stats.speed_correction import SpeedCorrection

Values = tuple[tuple[str, Value], ...]  # by axis
Load = object  # identifies comparable cases; None for a case that can't be trusted
# How often `--rounds auto` may test the ranks to decide on another round.
LOOKS = 4
LEAST_COMPARISONS = 10


def ranks(
    loads: Sequence[Load], values: Sequence[Estimate | None], *, more_is_better: bool = True, looks: int = 1
) -> list[int | None]:
    """Return the rank of each case among those with the same load: 1 plus the number of significantly better cases.

    A case without a load or an interval has none. The level is divided by the number of `looks` (Bonferroni).
    """
    case_ranks: list[int | None] = [None] * len(loads)
    for load in dict.fromkeys(load for load in loads if load is not None):
        pairs = enumerate(zip(loads, values, strict=True))
        field = {index: value for index, (own, value) in pairs if own == load and value and value.degrees}
        alpha = level(len(field), looks)
        for index, value in field.items():
            better = (is_worse(value, other, alpha, more_is_better=more_is_better) for other in field.values())
            case_ranks[index] = 1 + sum(better)
    return case_ranks


def level(cases: int, looks: int = 1) -> float:
    """Return the significance level of one comparison among this many cases.

    A small field is as strict as one of eleven: otherwise one of ten results would rank three equal servers.
    """
    return (1 - CONFIDENCE) / looks / max(LEAST_COMPARISONS, cases - 1)


def is_worse(one: Estimate, other: Estimate, alpha: float, *, more_is_better: bool = True) -> bool:
    return is_below(one, other, alpha) if more_is_better else is_below(other, one, alpha)


def leaders(
    loads: Sequence[Load], values: Sequence[Estimate | None], shown: Sequence[float | None], measure: Measure
) -> list[bool]:
    """Return whether each case gets a star in a metric: not significantly worse than the best, where others are.

    There are many columns of stars, so these comparisons share their level among all pairs (Bonferroni).
    """
    case_ranks = ranks(loads, values, more_is_better=measure.more_is_better, looks=max(1, len(loads)))
    return stars_of(case_ranks, loads, shown, measure)


def stars_of(
    case_ranks: Sequence[int | None], loads: Sequence[Load], shown: Sequence[float | None], measure: Measure
) -> list[bool]:
    """Return whether each case gets a star, given the ranks.

    A case with a wide interval is not significantly worse than any other, even if its value is bad. Therefore a case
    gets no star if a case without one has a better value.
    """
    stars = [False] * len(case_ranks)
    for load in dict.fromkeys(load for load, rank in zip(loads, case_ranks, strict=True) if rank):
        field = [index for index, rank in enumerate(case_ranks) if rank and loads[index] == load]
        losses = {index: -value if measure.more_is_better else value for index in field if (value := shown[index])}
        beaten = min((loss for index, loss in losses.items() if case_ranks[index] != 1), default=None)
        for index, loss in losses.items():
            stars[index] = case_ranks[index] == 1 and beaten is not None and loss <= beaten
    return stars


@dataclass(frozen=True, slots=True)
class Comparison:
    """The cases of a result, and their ceilings."""

    result: Result
    cases: list[Summary]
    ceilings: list[Summary]
    rounds: list[list[Round]]  # for each case
    ceiling_rounds: list[list[Round]]  # for each ceiling
    measured: Estimates  # estimates for each case, by the names in `MEASURES`
    correction: SpeedCorrection
    evidence: Evidence
    looks: int  # how often the ranks were tested to decide on another round
    noun: str  # what is compared
    load_axes: frozenset[str]

    def load(self, summary: Summary) -> Values:
        """Return the values that competing cases have in common."""
        return summary.case.on(self.load_axes)

    def loads(self) -> list[Values]:
        return list(dict.fromkeys(map(self.load, self.cases)))

    def by_rank(self) -> list[Summary]:
        """Return all cases of each load by rank and then by ping p99, unranked ones last; after them the ceilings."""
        loads = self.loads()

        def order(summary: Summary) -> tuple[float, ...]:
            ping = summary.ping_s
            ping_s = math.inf if ping is None else ping.p99 or ping.max
            return loads.index(self.load(summary)), summary.verdict == FAILED, summary.rank or math.inf, ping_s

        return [*sorted(self.cases, key=order), *self.ceilings]

    def every_round(self) -> list[Round]:
        """Return the rounds of all cases, the ceilings first."""
        return [run for case in (*self.ceiling_rounds, *self.rounds) for run in case]

    def rounds_of(self, work: object) -> list[Round]:
        """Return all rounds with the same work."""
        return [run for run in self.every_round() if run.case.work == work]

    def summary_of_one(self, run: Round) -> Summary:
        """Return the summary of a single round, with the verdict of its case."""
        rate = _point(self.correction.rate(run))
        ceiling = _point(self.correction.rate(run.ceiling)) if run.ceiling else None
        share = ratio(rate, ceiling) if rate and ceiling else None
        alone = summary_of([run], {"rate_per_s": rate, "of_ceiling": share}, self.correction, self.evidence)
        whole = next(case for case in (*self.cases, *self.ceilings) if case.case == run.case)
        if FAILED in (alone.verdict, whole.verdict):
            return alone
        return msgspec.structs.replace(alone, verdict=whole.verdict, reasons=whole.reasons)


def _point(value: float | None) -> Estimate | None:
    """Return an estimate without an interval."""
    return Estimate(math.log(value), math.nan, 0.0) if value else None


def summarize(result: Result, *, corrected: bool = True) -> Comparison:
    """Return the summary of every case, in the order of the servers' numbers.

    If `corrected`, intervals, ranks and shares of the ceiling are those at the machine's usual speed.
    """
    everything = list(cases_of(result.records))
    correction = SpeedCorrection(everything, corrected=corrected)
    evidence, measured = Evidence(everything, correction), estimates_of(everything, correction)
    shares = shares_of_ceiling(everything, measured["rate_per_s"])
    summaries = []
    for index, rounds in enumerate(everything):
        own = {name: estimates[index] for name, estimates in measured.items()} | {"of_ceiling": shares[index]}
        summaries.append(summary_of(rounds, own, correction, evidence))
    ceilings = [index for index, rounds in enumerate(everything) if rounds[0].record.is_ceiling]
    servers = [index for index in range(len(everything)) if index not in ceilings]
    of_servers = {name: [estimates[index] for index in servers] for name, estimates in measured.items()}
    looks = LOOKS if result.until_certain else 1
    cases = [summaries[index] for index in servers]
    of_load = load_axes([summary.case for summary in cases])
    return Comparison(
        result=result,
        cases=_ranked(cases, of_servers, of_load, looks),
        ceilings=[summaries[index] for index in ceilings],
        rounds=[everything[index] for index in servers],
        ceiling_rounds=[everything[index] for index in ceilings],
        measured=of_servers,
        correction=correction,
        evidence=evidence,
        looks=looks,
        noun="strategy" if result.suite is None else "server",
        load_axes=of_load,
    )


def _ranked(cases: Sequence[Summary], measured: Estimates, of_load: Collection[str], looks: int) -> list[Summary]:
    loads = [case.case.on(of_load) if case.verdict == OK else None for case in cases]
    by_rate = ranks(loads, measured["rate_per_s"], looks=looks)
    best = {}
    for name, measure in MEASURES.items():
        shown = [case.shown(name) for case in cases]
        is_rate = name == "rate_per_s"
        stars = stars_of(by_rate, loads, shown, measure) if is_rate else leaders(loads, measured[name], shown, measure)
        best[name] = stars
    return [
        msgspec.structs.replace(case, rank=by_rate[index], best=[name for name in MEASURES if best[name][index]])
        for index, case in enumerate(cases)
    ]
