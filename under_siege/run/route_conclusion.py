"""Conclude whether a route should move to threads or to a process pool, and say how to do it.

A case with a moved route shows what if: its server runs the wrapper `subprocess_scripts/what_if`, so that nobody had to
change the application. To have it, somebody has to.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from under_siege import formatting
from under_siege.judge.ranking import Comparison
from under_siege.judge.round_statistics import alone_wall_s
from under_siege.judge.summary import VISIBLE_S, Summary
from under_siege.judge.verdict_rules import FAILED
from under_siege.paths import PROGRAM
from under_siege.profile.diagnosis import Diagnosis
from under_siege.profile.hotspots import LOCK, WAITS, Hotspot
from under_siege.record.case import WORKERS
from under_siege.record.result import MovedRoute, Result
from under_siege.run.at_rate import paced
from under_siege.run.conclusion import Answer
from under_siege.show.view import Paragraph
from under_siege.suite.what_if import PREFIX, PROCESSES, WRAPPER, is_what_if

RECIPES = "docs/questions/02-process-pool.md"
THREAD_RECIPES = "docs/questions/01-def-or-async-def.md"
MOST_LINES = 3  # maximum number of lines of code to name
SLOWER = 0.9  # a route that waits reaches less than this share of its rate in a pool
MUCH_MORE = 1.2  # the CPU time of a request in the pool, as a multiple, that explains why it is slower
BUSY = 0.5  # CPUs; a route waits if its server uses less, although it works on more requests at a time than a pool
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
    chosen = next((each for each in comparison.cases if each.case == answer.case), None)
    remarks = [*conclusion.at_rate(chosen), *conclusion.remarks(chosen), *answer.remarks]
    if chosen is None or not is_what_if(chosen.server):
        return [replace(answer, remarks=remarks)]
    return [
        replace(answer, headline=conclusion.headline(chosen), facts=conclusion.facts(answer.facts), remarks=remarks)
    ]


def how_to(comparison: Comparison, found: Sequence[Answer]) -> Iterator[Paragraph]:
    """Yield how to move the route, if moving it to a process pool or to threads is recommended."""
    route = route_of(comparison)
    moved = next((answer.case.server for answer in found if answer.case and is_what_if(answer.case.server)), "")
    if route is None or not moved:
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

    @property
    def as_is(self) -> list[Summary]:
        """Return the cases of the same server with the application as it is; first, the one with fewest workers."""
        own = [each for each in self.comparison.cases if each.server == self.route.server and each.rate_per_s]
        return sorted(own, key=_workers)

    def headline(self, chosen: Summary) -> str:
        """Return the recommendation to move the route."""
        server, count = self.route.server, _workers(chosen)
        if chosen.server != PREFIX + PROCESSES:
            return f"Use threads for {self.route.path} ({server})."
        processes = f"{count} {'process' if count == 1 else 'processes'} beside it"
        return f"Use a process pool for {self.route.path} ({server}, {processes})."

    def facts(self, facts: Facts) -> list[tuple[str, str]]:
        """Return the facts about a moved route, each with that of the application as it is."""
        return [
            (label, "; ".join(filter(None, [_without_remark(text), self._as_it_is(label)]))) for label, text in facts
        ]

    def _as_it_is(self, label: str) -> str:
        describe = {"throughput": _rate, "health check": _ping, "memory": _memory}.get(label)
        if describe is None or not self.as_is:
            return ""
        first, *more = self.as_is
        texts = [f"as it is: {describe(first)}"]
        if more and label == "health check":
            texts.append(f"with {_workers(more[0])} workers: {describe(more[0])}")
        return ", ".join(texts)

    def at_rate(self, chosen: Summary | None) -> Iterator[str]:
        """Yield what users and health checks would notice at the rate of practice."""
        measured = {each.case: each for each in paced(self.comparison.result)}
        moved = [each for each in self.comparison.cases if is_what_if(each.server) and each.case in measured]
        now = next((measured[each.case] for each in self.as_is if each.case in measured), None)
        best = next((each for each in moved if chosen is not None and each.case == chosen.case), None)
        best = best or next((each for each in moved if each.server == PREFIX + PROCESSES), next(iter(moved), None))
        if now is None or best is None:
            return
        then, place = measured[best.case], "in the pool" if best.server == PREFIX + PROCESSES else "in threads"
        at, responses = f"At {now.per_s:g}/s", (_time(then.response_s), _time(now.response_s))
        if now.ping_s is not None and then.ping_s is not None:
            pings = f"health checks {_time(then.ping_s)} p99 {place}, {_time(now.ping_s)} as it is"
            yield f"{at}: {pings}; responses {' and '.join(responses)}."
        else:
            yield f"{at}: responses {responses[0]} p99 {place}, {responses[1]} as it is."
        slower_s = [now.response_s - then.response_s, (now.ping_s or 0.0) - (then.ping_s or 0.0)]
        if all(math.isfinite(each) and each < VISIBLE_S for each in slower_s):
            yield f"{at} it doesn't matter: leave it as it is."

    def remarks(self, chosen: Summary | None) -> Iterator[str]:
        """Yield a sentence for each moved case that is not recommended, or that could not be measured."""
        for each in self.comparison.cases:
            if not is_what_if(each.server) or (chosen is not None and each.case == chosen.case):
                continue
            name = "In a process pool" if each.server == PREFIX + PROCESSES else "In threads"
            if each.verdict == FAILED:
                continue  # a flag below the table gives the reason
            if each.rate_per_s:
                facts = [_rate(each), *([f"health checks {_ping(each)} (p99)"] if each.ping_s else []), _memory(each)]
                yield f"{name}, {self.route.path} has {', '.join(facts)}{self._why_slower(each)}."

    def _why_slower(self, moved: Summary) -> str:
        """Return why a route is slower in a pool, or an empty string if it isn't, or if the reason is unknown."""
        if moved.server != PREFIX + PROCESSES or not self.as_is or moved.rate >= SLOWER * self.as_is[0].rate:
            return ""
        now, count = self.as_is[0], _workers(moved)
        alone_s = alone_wall_s(self.comparison.rounds_of(moved.case.work)) or 0.0
        cpu_s, moved_cpu_s = now.cpu_s_per_transaction, moved.cpu_s_per_transaction
        if cpu_s is not None and cpu_s * (now.measured_per_s or 0.0) < BUSY and now.rate * alone_s > count:
            return f", because it mostly waits, and {count} processes answer only {count} requests at a time"
        if cpu_s is not None and moved_cpu_s is not None and moved_cpu_s > MUCH_MORE * cpu_s:
            return f", because moving a request uses {formatting.seconds(moved_cpu_s - cpu_s)} of CPU time"
        return ""


def notes_on(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield a note that says what the moved cases are."""
    if route_of(comparison) is None:
        return
    moved = [each for each in comparison.cases if is_what_if(each.server)]
    names = ", ".join(dict.fromkeys(each.server for each in moved))
    text = (
        f"what if: a wrapper, {WRAPPER}, answers the requests for the route elsewhere; all others stay where they are"
    )
    if any(each.server == PREFIX + PROCESSES for each in moved):
        text += "; each process of the pool imports the application, runs its lifespan, and has its own memory"
    yield names, text


def _without_remark(text: str) -> str:
    """Return a fact without its comparison with other cases."""
    return text.partition(";")[0].partition(", longer than")[0]


def _workers(summary: Summary) -> int:
    return int(summary.case.get(WORKERS) or 1)


def _rate(summary: Summary) -> str:
    return f"{formatting.rate(summary.rate)} trans/s" if summary.rate_per_s else "unknown"


def _ping(summary: Summary) -> str:
    ping = summary.ping_s
    if ping is None:
        return "unknown"
    return formatting.seconds(ping.p99) if ping.p99 is not None else f"more than {formatting.seconds(ping.max)}"


def _time(seconds: float) -> str:
    return formatting.seconds(seconds) if math.isfinite(seconds) else "without an end"


def _memory(summary: Summary) -> str:
    return formatting.megabytes(summary.memory_bytes or 0)
