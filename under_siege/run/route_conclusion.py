"""Conclude whether a route should move to threads or to a process pool, and say how to do it.

A case with a moved route shows what would happen if the route moved: its server runs the wrapper
`subprocess_scripts/what_if`, so the application is unchanged. In production, the code of the application must change.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from under_siege import formatting
from under_siege.judge.ranking import Comparison
from under_siege.judge.round_statistics import alone_wall_s
from under_siege.judge.speed_correction import taken_by_others
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import FAILED, OK
from under_siege.paths import PROGRAM
from under_siege.profile.diagnosis import Diagnosis
from under_siege.profile.hotspots import LOCK, WAITS, Hotspot
from under_siege.record.case import WORKERS
from under_siege.record.result import MovedRoute, Result
from under_siege.run.at_rate import paced
from under_siege.run.conclusion import Answer
from under_siege.run.moved_route import BETTER, SAME, WORSE, MoveComparison
from under_siege.show.case_names import CaseNames, without_capital
from under_siege.show.columns import phrase_of
from under_siege.show.view import Paragraph
from under_siege.suite.what_if import AS_IS, PREFIX, PROCESSES, WRAPPER, is_what_if

RECIPES = "docs/questions/02-process-pool.md"
THREAD_RECIPES = "docs/questions/01-def-or-async-def.md"
MOST_LINES = 3  # maximum number of lines of code to name
SLOWER = 0.9  # a route that waits reaches less than this share of its rate in a pool
MUCH_MORE = 1.2  # the CPU time of a request in the pool, as a multiple, that explains why it is slower
BUSY = 0.5  # CPUs; a route waits if its server uses less, although it works on more requests at a time than a pool
MOST_TAKEN = 0.2  # if other programs took more of a server's CPU time, nobody knows whether its route waits
Facts = Sequence[tuple[str, str]]


def route_of(comparison: Comparison) -> MovedRoute | None:
    """Return the route that some cases moved, or None if there are no such cases."""
    suite = comparison.result.suite
    return suite.route if suite and suite.route and any(is_what_if(each.server) for each in comparison.cases) else None


def is_only_proposed(summary: Summary, comparison: Comparison) -> bool:
    """Return whether a case shows what if, although the user did not ask for it."""
    route = route_of(comparison)
    return route is not None and not route.is_chosen and is_what_if(summary.server)


def with_route(comparison: Comparison, found: Sequence[Answer]) -> list[Answer]:
    """Return the conclusions; with a moved route, also say what it would change, compared with now."""
    route = route_of(comparison)
    if route is None or len(found) != 1:
        return list(found)
    answer, conclusion = found[0], RouteConclusion(comparison, route)
    chosen = _case_of(answer, comparison)
    remarks = [*conclusion.at_rate(chosen), *conclusion.remarks(chosen), *answer.remarks]
    headline, facts = answer.headline, answer.facts
    if chosen is not None and is_what_if(chosen.server):
        headline, facts = conclusion.headline(chosen), conclusion.facts(chosen, facts)
    return [replace(answer, headline=conclusion.with_rate(headline, chosen), facts=facts, remarks=remarks)]


def route_as_data(comparison: Comparison, found: Sequence[Answer]) -> dict[str, Any]:
    """Return the route, how to move it, and what was measured and decided at the rate of practice, for JSON."""
    if (route := route_of(comparison)) is None:
        return {}
    cases = [
        {
            "server": each.case.server,
            **each.case.parameters,
            "arrivals_per_s": each.per_s,
            "response_p99_s": each.response_s if math.isfinite(each.response_s) else None,
            "ping_p99_s": each.ping_s if each.ping_s is not None and math.isfinite(each.ping_s) else None,
        }
        for each in paced(comparison.result)
    ]
    chosen = _case_of(found[0], comparison) if len(found) == 1 else None
    compared = RouteConclusion(comparison, route).compared_at_rate(chosen) if len(found) == 1 else None
    decision = None if compared is None else {"outcome": compared.outcome, "use": _strategy_at_rate(compared)}
    return {**msgspec.structs.asdict(route), "at_rate": {"cases": cases, "decision": decision}}


def _strategy_at_rate(compared: MoveComparison) -> str | None:
    """Return the value of --strategy to use at the rate of practice, or None if it is undecided, or up to the user."""
    moved = compared.moved.case.server.removeprefix(PREFIX)
    return {BETTER: moved, WORSE: AS_IS, SAME: AS_IS}.get(compared.outcome)


def _case_of(answer: Answer, comparison: Comparison) -> Summary | None:
    """Return the recommended case, if any."""
    return next((each for each in comparison.cases if each.case == answer.case), None)


def how_to(comparison: Comparison, found: Sequence[Answer]) -> Iterator[Paragraph]:
    """Yield how to move the route, if moving it to a process pool or to threads is recommended."""
    route = route_of(comparison)
    if route is None:
        return
    recommended = [server for answer in found for server in _recommended(comparison, route, answer)]
    moved = next(filter(is_what_if, recommended), "")
    if not moved:
        return
    place = f"{route.file}:{route.line}, `{route.function}`" if route.function else f"the function for {route.path}"
    if moved != PREFIX + PROCESSES:
        yield _how_to_use_threads(comparison.result, route, place)
    elif route.diff:
        yield Paragraph(
            f"How to do it: {place}. Recipes and pitfalls: {RECIPES}", code="\n".join(route.diff), is_diff=True
        )
    else:
        lines = _lines_that("compute", comparison.result) or f"{PROGRAM} profile names the lines that compute"
        yield Paragraph(
            f"How to do it: {place}. It can't move as it is: {route.unmovable}. {lines}; the recipes are in {RECIPES}."
        )


def _recommended(comparison: Comparison, route: MovedRoute, answer: Answer) -> list[str]:
    """Return the servers that an answer recommends, under full load or at the rate of practice."""
    chosen = _case_of(answer, comparison)
    at_rate = RouteConclusion(comparison, route).compared_at_rate(chosen)
    better = [at_rate.moved.case.server] if at_rate is not None and at_rate.outcome == BETTER else []
    return [*([chosen.server] if chosen else []), *better]


def _how_to_use_threads(result: Result, route: MovedRoute, place: str) -> Paragraph:
    if route.def_diff:
        text = f"How to do it: {place}. Write `def` instead of `async def`, because it awaits nothing."
        return Paragraph(text, code="\n".join(route.def_diff), is_diff=True)
    why = f" A plain def is not enough: {route.needs_await}." if route.needs_await else ""
    lines = _lines_that("block", result) or f"{PROGRAM} profile --strategy as-is names the lines that block"
    return Paragraph(
        f"How to do it: {place}.{why} Move the lines that block to a function, and "
        f"`await asyncio.to_thread(function)`. {lines}; the recipes are in {THREAD_RECIPES}."
    )


def _lines_that(verb: str, result: Result) -> str:
    """Return the lines in which the application as it is computes or blocks most, if they are known."""
    excluded = (WAITS, LOCK) if verb == "compute" else ()
    spots = [spot for profile in result.profiles for spot in _spots(Diagnosis(profile), excluded)]
    lines = [f"{spot.frame.place} (`{spot.frame.name}`)" for spot in spots if spot.frame.kind != "library"]
    return f"These lines {verb}: {formatting.listed(lines[:MOST_LINES])}" if lines else ""


def _spots(diagnosis: Diagnosis, excluded: Sequence[str]) -> list[Hotspot]:
    spots = [*diagnosis.loop_hotspots, *(diagnosis.thread_hotspots if excluded else ())]
    return sorted((spot for spot in spots if spot.state not in excluded), key=lambda spot: -spot.wall)


@dataclass(frozen=True, slots=True)
class RouteConclusion:
    """What the cases with a moved route say about it."""

    comparison: Comparison
    route: MovedRoute

    def as_is(self, beside: Summary) -> list[Summary]:
        """Return the cases with the application as it is, to compare a case with; first, the one with fewest workers.

        They have the same server as the moved route, and the values of the case, such as its Python.
        """
        own = [each for each in self.comparison.cases if each.server == self.route.server and each.rate_per_s]
        return sorted((each for each in own if _is_comparable(each, beside)), key=_workers)

    def headline(self, chosen: Summary) -> str:
        """Return the recommendation to move the route."""
        case, count = replace(chosen.case, server=self.route.server), _workers(chosen)
        server = CaseNames(self.comparison.cases).name(case, [WORKERS])
        if chosen.server != PREFIX + PROCESSES:
            return f"Use threads for {self.route.path} ({server})."
        processes = f"{count} {'process' if count == 1 else 'processes'} beside it"
        return f"Use a process pool for {self.route.path} ({server}, {processes})."

    def facts(self, chosen: Summary, facts: Facts) -> list[tuple[str, str]]:
        """Return the facts about a moved route, each with that of the application as it is."""
        as_is = self.as_is(chosen)
        return [
            (label, "; ".join(filter(None, [_without_remark(text), _as_it_is(as_is, label)]))) for label, text in facts
        ]

    def compared_at_rate(self, chosen: Summary | None) -> MoveComparison | None:
        """Return the comparison at the rate of practice: with as many workers as recommended, or else the fewest."""
        measured = {each.case: each for each in paced(self.comparison.result)}
        moved = [each for each in self.comparison.cases if is_what_if(each.server) and each.case in measured]
        if chosen is not None:
            moved = [chosen] if chosen in moved else [each for each in moved if _is_comparable(each, chosen)]
        workers = _workers(chosen) if chosen is not None and not is_what_if(chosen.server) else None
        compared = []
        for each in sorted(moved, key=lambda each: each.server != PREFIX + PROCESSES):
            if kept := [other for other in self.as_is(each) if other.case in measured]:
                now = next((other for other in kept if _workers(other) == workers), kept[0])
                compared.append(MoveComparison(measured[each.case], measured[now.case]))
        return next((each for each in compared if each.outcome == BETTER), next(iter(compared), None))

    def with_rate(self, headline: str, chosen: Summary | None) -> str:
        """Return the headline, also with the recommendation at the rate of practice if it is another one."""
        at_rate = self.compared_at_rate(chosen)
        if at_rate is None:
            return headline
        moves = chosen is not None and is_what_if(chosen.server)
        if at_rate.outcome == BETTER and not moves:
            best = next(each for each in self.comparison.cases if each.case == at_rate.moved.case)
            other = without_capital(self.headline(best))
        elif at_rate.outcome in (WORSE, SAME) and moves:
            other = "leave it as it is."
        else:
            return headline
        at = f"t {at_rate.now.per_s:g}/s, {other}"
        if chosen is None:
            return f"{headline} A{at}"
        return f"Under full load, {without_capital(headline).removesuffix('.')}; a{at}"

    def at_rate(self, chosen: Summary | None) -> Iterator[str]:
        """Yield what users and health checks would notice at the rate of practice."""
        at_rate = self.compared_at_rate(chosen)
        if at_rate is None:
            return
        moved, now = at_rate.moved, at_rate.now
        place = "the pool" if moved.case.server == PREFIX + PROCESSES else "threads"
        workers = int(now.case.get(WORKERS) or 1)
        as_it_is = "as it is" if workers == 1 else f"as it is with {workers} workers"
        responses = [_time(each.response_s) for each in (moved, now)]
        if now.ping_s is not None and moved.ping_s is not None:
            pings = f"health checks {_time(moved.ping_s)} in {place}, {_time(now.ping_s)} {as_it_is}"
            yield f"At {now.per_s:g}/s (p99): {pings}; responses {' and '.join(responses)}."
        else:
            yield f"At {now.per_s:g}/s (p99): responses {responses[0]} in {place}, {responses[1]} {as_it_is}."
        yield at_rate.sentence(place)

    def remarks(self, chosen: Summary | None) -> Iterator[str]:
        """Yield a sentence for each moved case that is not recommended, and one if there is no baseline."""
        cases = self.comparison.cases
        if all(is_what_if(each.server) for each in cases):
            yield f"To see what it changes, also measure {self.route.path} as it is: --strategy as-is."
        for each in cases if len(cases) > 1 else ():  # the facts above are those of a single case
            if not is_what_if(each.server):
                continue
            if chosen is not None and (each.case == chosen.case or not _is_comparable(each, chosen)):
                continue
            name = "In a process pool" if each.server == PREFIX + PROCESSES else "In threads"
            if each.verdict == FAILED:
                continue  # a flag below the table gives the reason
            if each.rate_per_s:
                facts = [_rate(each), *([f"health checks {_ping(each)} (p99)"] if each.ping_s else []), _memory(each)]
                yield f"{name}, {self.route.path} has {', '.join(facts)}{self._why_slower(each)}."

    def _why_slower(self, moved: Summary) -> str:
        """Return why a route is slower in a pool, or an empty string if it isn't, or if the reason is unknown."""
        as_is = self.as_is(moved)
        if moved.server != PREFIX + PROCESSES or moved.verdict != OK or not as_is:
            return ""
        now, count = as_is[0], _workers(moved)
        if now.verdict != OK or moved.rate >= SLOWER * now.rate:
            return ""
        alone_s = alone_wall_s(self.comparison.rounds_of(moved.case.work)) or 0.0
        cpu_s, moved_cpu_s = now.cpu_s_per_transaction, moved.cpu_s_per_transaction
        is_idle = cpu_s is not None and cpu_s * (now.measured_per_s or 0.0) < BUSY and not self._lacks_cpu(now)
        if is_idle and now.rate * alone_s > count:
            return f", because it mostly waits, and {count} processes answer only {count} requests at a time"
        if cpu_s is not None and moved_cpu_s is not None and moved_cpu_s > MUCH_MORE * cpu_s:
            return f", because moving a request uses {formatting.seconds(moved_cpu_s - cpu_s)} of CPU time"
        return ""

    def _lacks_cpu(self, summary: Summary) -> bool:
        """Return whether other programs took so much CPU time that a server that computes looks like one that waits."""
        rounds = self.comparison.rounds[self.comparison.cases.index(summary)]
        return any(taken_by_others(each) > MOST_TAKEN for each in rounds)


def notes_on(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield a note for each server with a moved route that says what it is."""
    route = route_of(comparison)
    if route is None:
        return
    for server in dict.fromkeys(each.server for each in comparison.cases if is_what_if(each.server)):
        is_pool = server == PREFIX + PROCESSES
        place, to = ("a process pool", "the pool") if is_pool else ("threads", "threads")
        moved = f"A wrapper, {WRAPPER}, hands its requests to {to}; the server answers all others"
        own = ". Each process of the pool imports the application, runs its lifespan, and has its own memory"
        yield server, f"what if {route.path} ran in {place}? {moved}{own if is_pool else ''}"


def _without_remark(text: str) -> str:
    """Return a fact without its comparison with other cases."""
    return text.partition(";")[0].partition(", longer than")[0]


def _as_it_is(as_is: Sequence[Summary], label: str) -> str:
    describe = {"throughput": _rate, "health check": _ping, "memory": _memory}.get(label)
    if describe is None or not as_is:
        return ""
    first, *more = as_is
    texts = [f"as it is: {describe(first)}"]
    if more and label == "health check":
        texts.append(f"with {_workers(more[0])} workers: {describe(more[0])}")
    return ", ".join(texts)


def _is_comparable(one: Summary, other: Summary) -> bool:
    """Return whether two cases differ at most in their server, in their workers, and in axes that one of them lacks."""
    return all(other.case.get(name) in (None, value) for name, value in one.case.values if name != WORKERS)


def _workers(summary: Summary) -> int:
    return int(summary.case.get(WORKERS) or 1)


def _rate(summary: Summary) -> str:
    if not summary.rate_per_s:
        return "unknown"
    return f"{phrase_of('rate_per_s', summary)} trans/s{'' if summary.verdict == OK else f' ({summary.verdict})'}"


def _ping(summary: Summary) -> str:
    return phrase_of("ping_p99_s", summary)


def _time(seconds: float) -> str:
    return formatting.seconds(seconds) if math.isfinite(seconds) else "unbounded (requests failed)"


def _memory(summary: Summary) -> str:
    return formatting.megabytes(summary.memory_bytes or 0)
