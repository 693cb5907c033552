"""Write a headline for each chart from the figures that it shows.

A headline about many cases gives their number, and a second line lists their names.
"""

from __future__ import annotations

from collections.abc import Sequence

from under_siege import formatting
from under_siege.formatting import listed, span
from under_siege.judge.metric import MetricValue
from under_siege.judge.round_statistics import Round
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import OK
from under_siege.show.case_names import CaseNames, with_capital

_MOST_NAMES = 3


def of_throughput(cases: Sequence[Summary]) -> str:
    first = [case for case in cases if case.rank == 1 and case.rate_per_s]
    if not first:
        return "No case could be ranked by throughput"
    rates = sorted(case.rate for case in first)
    counted = "events" if first[0].has_streams else "requests"
    if len(first) == len([case for case in cases if case.verdict == OK]) > 1:
        return f"No significant difference: all serve {span(rates, formatting.rate)} {counted} per second"
    if len(first) == 1:
        name = with_capital(_names(first, cases), first[0].server)
        return f"{name} is the fastest: {span(rates, formatting.rate)} {counted} per second"
    text = f"share first place: {span(rates, formatting.rate)} {counted} per second"
    return _said(first, cases, text, "Fastest")


def of_pings(cases: Sequence[Summary], task_s: float | None) -> str:
    pinged = [(case, case.ping_s) for case in cases if case.ping_s and case.verdict == OK]
    if not pinged or task_s is None:
        return "Health-check latency under load"
    short = [case for case, ping in pinged if ping.p99 is not None and ping.p99 < task_s]
    longest = max(ping.least_p99 for _, ping in pinged)
    if not short:
        return f"In every case, pings (p99) take longer than a whole task: up to {formatting.seconds(longest)}"
    if len(short) == len(pinged):
        return f"In every case, pings (p99) take at most {formatting.seconds(longest)}"
    within, rest = (
        span(sorted(ping.least_p99 for case, ping in pinged if (case in short) is is_short), formatting.seconds)
        for is_short in (True, False)
    )
    answer = "answers" if len(short) == 1 else "answer"
    return _said(short, cases, f"{answer} pings (p99) in {within}, the rest in {rest}", "Quick")


def of_streams(cases: Sequence[Summary]) -> str:
    """Return a headline that compares the gaps of the cases."""
    known = [(case.gap_s.p99, case) for case in cases if case.gap_s and case.gap_s.p99 is not None]
    if not known:
        return "No server sent enough events to tell how long its gaps are"
    (shortest_s, best), (longest_s, worst) = min(known, key=lambda pair: pair[0]), max(known, key=lambda pair: pair[0])
    if longest_s < 1.5 * shortest_s:
        return f"Gaps (p99) are similar: up to {formatting.seconds(longest_s)}"
    return (
        f"Gaps (p99) take {formatting.seconds(shortest_s)} with {best.server}, "
        f"but {formatting.seconds(longest_s)} with {worst.server}"
    )


def of_tradeoff(cases: Sequence[Summary]) -> str:
    best = [case for case in cases if case.rank == 1 and "ping_p99_s" in case.best]
    if best:
        verb = "has" if len(best) == 1 else "have"
        return _said(best, cases, f"{verb} the best throughput and the shortest pings", "Best")
    return "No case has both the best throughput and the shortest pings"


def of_moments(cases: Sequence[Summary], rounds: Sequence[Sequence[Round]]) -> str:
    """Return a headline that compares the longest pings of the cases in the first round, which the chart shows."""
    longest = [case[0].pings.longest_s() or 0.0 for case in rounds]
    worst, best = longest.index(max(longest)), longest.index(min(longest))
    if longest[worst] < 2 * longest[best]:
        return f"No ping of the first round took longer than {formatting.seconds(longest[worst])}"
    names = CaseNames(cases)
    return (
        f"The longest ping of the first round took {formatting.seconds(longest[worst])} with "
        f"{names.plain(cases[worst])}, {formatting.seconds(longest[best])} with {names.plain(cases[best])}"
    )


def of_memory(cases: Sequence[Summary]) -> str:
    first = sorted(case.memory_bytes for case in cases if case.rank == 1 and case.memory_bytes)
    everything = sorted(case.memory_bytes for case in cases if case.memory_bytes)
    if not first:
        return f"Memory: {span(everything, formatting.megabytes)}" if everything else "Memory was not measured"
    least = "" if first[0] == everything[0] else f"; the leanest uses {formatting.megabytes(everything[0])}"
    fastest = "The fastest case uses" if len(first) == 1 else "The fastest cases use"
    return f"{fastest} {span(first, formatting.megabytes)} of memory{least}"


def of_cpu(cases: Sequence[Summary], spent: Sequence[MetricValue], task_s: float | None) -> str:
    """Return a headline that names the case with the most CPU time on top of the task, if that time is significant."""
    known = [
        (metric.value, metric, case) for metric, case in zip(spent, cases, strict=True) if metric.value is not None
    ]
    if task_s is None:
        values = sorted(value for value, *_ in known)
        return f"A response costs {span(values, formatting.seconds)} of CPU time" if values else "CPU time"
    task = f"a task of {formatting.seconds(task_s)}"
    if not any(metric.high is not None for _, metric, _ in known):
        return f"CPU time per response on top of {task}"
    significant = [entry for entry in known if entry[1].low is not None and entry[1].low > 0]
    if not significant:
        return f"No significant CPU time on top of {task}"
    most_s, _, case = max(significant, key=lambda entry: entry[0])
    name, most = CaseNames(cases).plain(case), f"{formatting.seconds(most_s)} per response, for a task that takes "
    most += formatting.seconds(task_s)
    if len(significant) == 1:
        return f"Only {name} spends significant CPU time on top of the task: {most}"
    return f"{with_capital(name, case.server)} spends the most CPU time on top of the task: {most}"


def _said(cases_named: Sequence[Summary], cases: Sequence[Summary], text: str, label: str) -> str:
    """Return a sentence about `cases_named`; if there are many, it gives their number, and a second line lists them."""
    if len(cases_named) <= _MOST_NAMES:
        return f"{with_capital(_names(cases_named, cases), cases_named[0].server)} {text}"
    return f"{len(cases_named)} of {len(cases)} {text}\n{label}: {_names(cases_named, cases)}"


def _names(cases_named: Sequence[Summary], cases: Sequence[Summary]) -> str:
    names = CaseNames(cases)
    return listed([names.plain(case) for case in cases_named])
