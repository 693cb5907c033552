"""Write the conclusion of a comparison: which case to use, why, and how throughput changes along a numeric axis."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from under_siege import formatting
from under_siege.formatting import listed
from under_siege.judge.estimates import ACCURACY, Estimate, differ, ratio, student_at
from under_siege.judge.metrics import METRICS
from under_siege.judge.ranking import Comparison, is_worse, rank_level
from under_siege.judge.request_summary import waiting
from under_siege.judge.round_statistics import alone_wall_s
from under_siege.judge.summary import EventTimes, Summary
from under_siege.judge.verdict_rules import GENERATOR, OK, SUSPECT, UNCLEAR, verdict_of
from under_siege.paths import PROGRAM
from under_siege.record.case import PACES, WORKERS, Case, axis
from under_siege.record.record import OUT_OF_MEMORY
from under_siege.show.case_names import MOST_NAMES, CaseNames, labels, without_capital
from under_siege.show.columns import noun, phrase_of, with_first_text
from under_siege.show.process_notes import sentences_on
from under_siege.suite.suite import Kind
from under_siege.suite.what_if import is_what_if

FASTEST = "it was the fastest"  # the reason for a recommendation that needs no other
FASTEST_VERIFIED = "it was the fastest of those that could be verified"
MOST_TIES = 3  # maximum number of ties that are listed by name
MOST_LOADS = 8  # maximum number of lines, one for each load
MOST_WAITING = 3  # maximum number of sentences about requests that wait
MOST_EXPLAINED = 2  # maximum number of sentences about processes
NEAR_CEILING = 0.9  # minimum share of the ceiling at which nothing can be much faster
MUCH_LESS = 0.8  # a case with less than this share of the recommended case's memory is worth a remark
ABOUT_AS_FAST = math.log(0.9)  # logarithm of the minimum ratio of a recommended case's rate to the best rate
CLASSES = {  # the strategies of each kind
    Kind.IN_LINE: "one request at a time",
    Kind.SLICES: "slices on the event loop",
    Kind.GREENLETS: "greenlets",
    Kind.THREADS: "threads",
    Kind.PROCESSES: "a process pool",
    Kind.PREFORK: "processes started before any request",
    Kind.INTERPRETERS: "sub-interpreters",
}
POWER = 0.8  # probability of detecting a difference


@dataclass(frozen=True, slots=True)
class Answer:
    """The conclusion of a comparison for one load."""

    case: Case | None  # recommended case, if any
    headline: str
    facts: Sequence[tuple[str, str]] = ()  # label and text
    remarks: Sequence[str] = ()


def answers(comparison: Comparison) -> list[Answer]:
    """Return an answer for each load; if there are several loads, each answer is a single line."""
    loads = comparison.loads()
    if len(loads) == 1:
        return [_SameLoad(comparison, loads[0]).answer()]
    lines = [_SameLoad(comparison, load).one_line() for load in loads]
    if len(lines) > MOST_LOADS:
        rest = Answer(None, f"The table shows {len(lines) - MOST_LOADS + 1} more loads.")
        return [*lines[: MOST_LOADS - 1], rest]
    return lines


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A case with a known throughput, which may be recommended unless it is `unclear`."""

    summary: Summary
    name: str  # as in the table
    plain: str  # such as `a process pool (4_async_processexecutor)`
    number: str  # such as `4 with 2 workers`
    measured: dict[str, Estimate | None]
    rate: Estimate
    keeps_pings_short: bool  # whether the ping p99 is shorter than a single task
    kind: str  # as in `Record.kind`

    @property
    def ping(self) -> str:
        return phrase_of("ping_p99_s", self.summary) if self.summary.ping_s else "an unknown time"

    @property
    def changes_code(self) -> bool:
        return is_what_if(self.summary.server)

    @property
    def ping_s(self) -> float:
        ping = self.summary.ping_s
        return math.inf if ping is None else ping.least_p99

    @property
    def memory_bytes(self) -> int:
        return self.summary.memory_bytes or 0

    @property
    def is_near_ceiling(self) -> bool:
        share = self.summary.of_ceiling
        return share is not None and share.mean >= NEAR_CEILING

    @property
    def possible_log(self) -> float:
        """Return the logarithm of the rate, but at most that of the ceiling, because nothing is faster."""
        share = self.summary.of_ceiling
        return self.rate.log - max(0.0, math.log(share.mean)) if share else self.rate.log

    @property
    def range(self) -> str:
        """Return the interval of the throughput as text, such as `205/s to 902/s`, or the rate without an interval."""
        edges = self.rate.interval() or (self.summary.rate,)
        return " to ".join(f"{formatting.rate(edge)}/s" for edge in edges)

    @property
    def throughput(self) -> str:
        """Return the throughput as text, such as `18.0 ± 0.83 trans/s, 95 % of the ceiling`."""
        unit = "events/s" if self.summary.has_streams else "trans/s"
        ceiling = self.summary.of_ceiling
        share = f", {formatting.share(ceiling.mean)} of the ceiling" if ceiling else ""
        return f"{phrase_of('rate_per_s', self.summary)} {unit}{share}"

    @property
    def gaps(self) -> str:
        return _p50_and_p99(self.summary.gap_s) if self.summary.gap_s else ""

    @property
    def longest_wait_s(self) -> float:
        """Return the sum of the p99 of first events and gaps; streams of a single event have no gaps."""
        return sum(times.least_p99 for times in (self.summary.first_event_s, self.summary.gap_s) if times)


class _SameLoad:
    """The cases of one load, from which one is recommended."""

    def __init__(self, comparison: Comparison, load: object) -> None:
        self._names, self._noun = CaseNames(comparison.cases), noun_of(comparison)
        indices = [index for index, case in enumerate(comparison.cases) if comparison.load(case) == load]
        self._summaries = [comparison.cases[index] for index in indices]
        had_one_round = all(summary.rounds == 1 for summary in self._summaries)
        self._is_limited = comparison.result.until_certain and had_one_round  # there was no time for more
        self._rounds_of = {comparison.cases[index].case: comparison.rounds[index] for index in indices}
        works = {summary.case.work for summary in self._summaries}
        self._alone_s = {work: alone_wall_s(comparison.rounds_of(work)) for work in works}
        candidates = [candidate for index in indices if (candidate := self._candidate(comparison, index)) is not None]
        self._sound = [candidate for candidate in candidates if candidate.summary.verdict == OK]
        self._unclear = [candidate for candidate in candidates if candidate.summary.verdict == UNCLEAR]
        self._understated = [candidate for candidate in candidates if _is_understated(candidate.summary)]
        self._first = [candidate for candidate in self._sound if candidate.summary.rank == 1]
        limit = shared_limit(self._summaries, self._alone_s)
        self._has_streams = any(summary.has_streams for summary in self._summaries)
        # Streams last as long as their events take, so users often limit the rate; the gaps still differ.
        self._shared_limit, self._limit_of_streams = ("", limit) if self._has_streams else (limit, "")
        self._alpha = rank_level(len(candidates), comparison.looks)
        self._chosen: _Candidate | None = None
        self._alike: list[_Candidate] = []
        self._choose()

    def _candidate(self, comparison: Comparison, index: int) -> _Candidate | None:
        summary = comparison.cases[index]
        measured = {metric: estimates[index] for metric, estimates in comparison.measured.items()}
        rate = measured["rate_per_s"]
        if rate is None or not (summary.verdict in (OK, UNCLEAR) or _is_understated(summary)):
            return None
        alone_s, ping = self._alone_s[summary.case.work], summary.ping_s
        is_short = alone_s is not None and ping is not None and ping.p99 is not None and ping.p99 < alone_s
        kind = comparison.rounds[index][0].record.kind
        names = self._names
        return _Candidate(
            summary,
            name=names.name(summary.case),
            plain=names.in_sentence(summary),
            number=names.numbered(summary.case),
            measured=measured,
            rate=rate,
            keeps_pings_short=is_short,
            kind=kind,
        )

    def _choose(self) -> None:
        """Find the recommended case, if there is one, and those that are as good and of the same kind.

        Among the fastest cases, prefer short pings, then no change of the code, then the least memory if it is known.

        Among the fastest servers of streams, prefer those whose users wait least for the first event and in a gap,
        then the least memory. Gaps alone would favour servers that let most streams wait.
        """
        slower = [candidate for candidate in self._sound if candidate not in self._first]
        self._slower = sorted(slower, key=lambda candidate: -candidate.rate.log)
        best = max((candidate.possible_log for candidate in self._first), default=0.0)
        self._fast = [candidate for candidate in self._first if candidate.possible_log >= best + ABOUT_AS_FAST]
        if self._has_streams:
            shortest_s = min((candidate.longest_wait_s for candidate in self._fast), default=0.0)
            most_s = shortest_s + METRICS["gap_p99_s"].tolerance
            self._preferred = [candidate for candidate in self._fast if candidate.longest_wait_s <= most_s]
        else:
            quick = [candidate for candidate in self._fast if candidate.keeps_pings_short]
            # Short health checks are worth a change of the code even if the route is perhaps somewhat slower then.
            changed = [each for each in self._first if each.keeps_pings_short and each.changes_code]
            self._preferred = quick or changed or self._fast
        # The cases without a rank whose rate is higher than that of every `ok` case, significantly or not. They are
        # `unclear`, or `suspect` only because the load tool left them too little CPU time. Nothing is much faster than
        # a case whose rate is near the ceiling.
        fastest = max((candidate.rate.log for candidate in self._sound), default=math.inf)
        if any(candidate.is_near_ceiling for candidate in self._first):
            fastest = math.inf
        others = (*self._unclear, *self._understated)
        self._perhaps_faster = [each for each in others if each.rate.log > fastest + math.log1p(ACCURACY)]
        if not self._fast or self._shared_limit or self._perhaps_faster:
            return
        easy = [candidate for candidate in self._preferred if not candidate.changes_code] or self._preferred
        is_known = _have_known_memory(easy)
        chosen = min(easy, key=lambda candidate: (candidate.memory_bytes if is_known else 0, candidate.ping_s))
        kind = self._kind_of(chosen)
        is_only_kind = all(self._kind_of(candidate) == kind for candidate in self._sound)
        alike = [candidate for candidate in self._preferred if self._kind_of(candidate) == kind]
        self._chosen, self._alike = chosen, alike if kind and not is_only_kind else [chosen]

    def _kind_of(self, candidate: _Candidate) -> object:
        """Return the kind of a strategy or, for servers without a known kind, their number of workers."""
        by_workers = self._noun == "server" and not candidate.changes_code
        return candidate.kind or (candidate.summary.case.get(WORKERS) if by_workers else None)

    def answer(self) -> Answer:
        if len(self._summaries) == 1 and (only := self._sound or self._unclear):
            summary = only[0].summary
            remarks = [*_of_waiting_requests(summary), *_of_stutter(summary), *self._of_processes()]
            remarks += self._left_out()
            return Answer(None, f"Measured: {only[0].plain}.", self._facts(only[0]), remarks)
        if self._chosen is None:
            remarks = [*self._fastest_verified(), *self._of_processes(), *self._left_out()]
            return Answer(None, self._headline(), (), remarks)
        case, facts = self._chosen.summary.case, self._facts(self._chosen)
        return Answer(case, self._headline(), facts, [*self._remarks(self._chosen)])

    def one_line(self) -> Answer:
        load = self._names.load(self._summaries[0].case)
        chosen = self._chosen
        if chosen is None:
            return Answer(None, f"{load}: {without_capital(self._headline())}")
        facts = [chosen.throughput, *([f"gaps {chosen.gaps}"] if chosen.summary.gap_s else [])]
        facts += [f"health checks {chosen.ping} (p99)"] if chosen.summary.ping_s else []
        reason = self._reason(chosen)
        because = f"; recommended because {reason}" if reason != FASTEST else ""
        return Answer(chosen.summary.case, f"{load}: use {self._class_of(chosen)}: {', '.join(facts)}{because}.")

    def _headline(self) -> str:
        if self._chosen is not None:
            return f"Use {self._class_of(self._chosen)}."
        if self._shared_limit:
            return self._shared_limit
        if (
            not self._sound
            and self._unclear
            and all("busy_machine" in [reason.code for reason in each.summary.reasons] for each in self._unclear)
        ):
            return "No recommendation: other programs used more than half of the CPU time. Close them, and run again."
        if not self._sound and not self._unclear:
            return f"No recommendation: every {self._noun} failed or is suspect."
        if max(candidate.summary.rounds for candidate in (*self._sound, *self._unclear)) == 1:
            how = "Use --rounds 2 or more, a shorter task, or fewer users."
            if self._is_limited:
                how = "There was no time for more. Use fewer servers, fewer --users, or short sieges with --time 5s."
            return f"No recommendation: one round can't show how much rates differ by chance. {how}"
        if self._perhaps_faster:
            best = max(self._perhaps_faster, key=lambda candidate: candidate.rate.log)
            if best in self._understated:
                return (
                    f"No recommendation: {best.plain} is faster than measured, {best.throughput}, because generating "
                    "the load took too much of its CPU time. Use fewer users or a longer task."
                )
            return f"No recommendation: {best.plain} may be the fastest, with {best.range}, but it is unclear."
        return f"No recommendation: no {self._noun} has a verified throughput."

    def _reason(self, chosen: _Candidate) -> str:
        """Return why this case is recommended, not another one that is about as fast."""
        if self._preferred == self._fast and len(self._fast) == 1:
            may_be_above = any(candidate.rate.log > chosen.rate.log for candidate in self._unclear) or any(
                summary.verdict == UNCLEAR and not summary.rate_per_s for summary in self._summaries
            )
            return FASTEST_VERIFIED if may_be_above else FASTEST
        if len(self._preferred) == 1:
            return "its users wait least for events" if self._has_streams else "its health checks are quick"
        least = _least(chosen, [candidate for candidate in self._preferred if candidate is not chosen])
        if self._preferred == self._fast:
            return least
        quick = "whose users wait least for events" if self._has_streams else "with quick health checks"
        return f"among the fastest {quick}, {least}"

    def _class_of(self, chosen: _Candidate) -> str:
        """Return the recommended case or, if others of its kind are about as fast, their kind and their names.

        Servers of an application have no kind. If they all need the same number of workers, this number is the answer.
        """
        if len(self._alike) < 2:
            return chosen.plain
        if chosen.kind:
            numbers = listed([candidate.number for candidate in self._alike], word="or")
            return f"{CLASSES[Kind(chosen.kind)]} ({numbers})"
        count = int(chosen.summary.case.get(WORKERS) or 0)
        return f"{axis(WORKERS).label(count)} ({listed([each.summary.server for each in self._alike], word='or')})"

    def _facts(self, candidate: _Candidate) -> list[tuple[str, str]]:
        facts = [("throughput", f"{candidate.throughput}{self._compared(candidate)}")]
        if first := candidate.summary.first_event_s:
            facts.append((with_first_text("first event", [candidate.summary]), _p50_and_p99(first)))
        if candidate.summary.gap_s:
            facts.append(("gaps", candidate.gaps))
        if candidate.summary.ping_s:
            facts.append(("health check", f"{candidate.ping} p99 under full load{self._longer_than_task(candidate)}"))
        if candidate.memory_bytes:
            facts.append(("memory", formatting.megabytes(candidate.memory_bytes)))
        return facts

    def _compared(self, candidate: _Candidate) -> str:
        if self._first == [candidate] and len(self._slower) == 1:
            slower = self._slower[0]
            return f"; {_times(ratio(candidate.rate, slower.rate))} times as fast as {slower.name}"
        if candidate.is_near_ceiling and (len(self._sound) > 1 or self._unclear):
            return ", so nothing can be much faster"
        if len(self._sound) == 1:
            return ""
        if not self._slower:
            return f"; no {self._noun} is significantly faster or slower"
        return "; nothing is significantly faster"

    def _longer_than_task(self, candidate: _Candidate) -> str:
        alone_s = self._alone_s[candidate.summary.case.work]
        if candidate.keeps_pings_short or alone_s is None:
            return ""
        return f", longer than one {'task' if self._noun == 'strategy' else 'response'} ({formatting.seconds(alone_s)})"

    def _remarks(self, chosen: _Candidate) -> Iterator[str]:
        which = "Recommended" if self._class_of(chosen) == chosen.plain else f"{chosen.name} is recommended"
        yield f"{which} because {self._reason(chosen)}."
        if not chosen.keeps_pings_short and chosen.summary.ping_s:
            yield from self._for_quick_pings(chosen)
        yield from self._for_little_memory(chosen)
        yield from self._of_more_workers(chosen)
        yield from _of_waiting_requests(chosen.summary)
        yield from _of_stutter(chosen.summary)
        yield from self._of_processes()
        limit = self._limit_of_streams
        if limit and not any(summary.stutters for summary in self._summaries):  # more users would only hide the cause
            yield formatting.capitalized(limit.partition(": ")[2])
        slower = [candidate for candidate in self._slower if is_worse(candidate.rate, chosen.rate, self._alpha)]
        others = [candidate for candidate in self._sound if candidate is not chosen and candidate not in slower]
        if ties := [candidate for candidate in others if candidate not in self._alike]:
            few = [candidate.name for candidate in ties]
            names = listed(few) if len(ties) <= MOST_TIES else _names([candidate.number for candidate in ties])
            yield f"Not significantly different in throughput: {names}."
        yield from self._detectable()
        if slower and not (self._first == [chosen] and len(slower) == 1):
            factors = sorted(math.exp(chosen.rate.log - candidate.rate.log) for candidate in slower)
            span = formatting.span([max(1.0, factor) for factor in factors], "{:.1f}".format)
            name = f"server {chosen.number}" if chosen.number.isdecimal() else chosen.name
            yield f"Slower: {_names([candidate.number for candidate in slower])} ({name} is {span} times as fast)."
        yield from self._left_out(chosen)

    def _for_quick_pings(self, chosen: _Candidate) -> Iterator[str]:
        quick = [candidate for candidate in self._sound if candidate.keeps_pings_short]
        if quick:
            best = max(quick, key=lambda candidate: candidate.rate.log)
            share = _share_of(best, chosen)
            yield f"Need quick health checks? {best.name}: {best.ping} p99, {share} of the throughput."

    def _for_little_memory(self, chosen: _Candidate) -> Iterator[str]:
        lean = [candidate for candidate in self._sound if self._is_leaner(candidate, chosen)]
        if lean:
            best = max(lean, key=lambda candidate: (candidate in self._first, candidate.rate.log))
            part = "similar throughput" if best in self._first else f"{_share_of(best, chosen)} of the throughput"
            blocks = chosen.keeps_pings_short and not best.keeps_pings_short
            pings = f", but health checks take {best.ping} (p99)" if blocks else ""
            yield f"Short of memory? {best.name}: {formatting.megabytes(best.memory_bytes)}, {part}{pings}."

    def _of_more_workers(self, chosen: _Candidate) -> Iterator[str]:
        """Yield a sentence about the next higher number of workers of the same server, which is not faster."""
        own = chosen.summary.case
        more = [
            summary
            for summary in self._summaries
            if summary.case.without([WORKERS]) == own.without([WORKERS])
            and int(summary.case.get(WORKERS) or 0) > int(own.get(WORKERS) or 0)
        ]
        if not more:
            return
        summary = min(more, key=lambda summary: int(summary.case.get(WORKERS) or 0))
        workers = axis(WORKERS).label(int(summary.case.get(WORKERS) or 0))
        if any(reason.code == OUT_OF_MEMORY for reason in summary.reasons):
            yield f"More workers don't fit: {workers} need more memory than the limit."
        elif candidate := next((each for each in self._sound if each.summary is summary), None):
            times = candidate.memory_bytes / chosen.memory_bytes if chosen.memory_bytes else 0
            at = f" at {times:.1f} times the memory" if times > 1 else ""
            yield f"More workers don't help: {workers}: {candidate.throughput}{at}."

    def _of_processes(self) -> Iterator[str]:
        """Yield the sentences about processes that explain figures, first those on the recommended case."""
        chosen = self._chosen.summary if self._chosen else None
        found = [
            (summary, text)
            for summary in sorted(self._summaries, key=lambda summary: summary is not chosen)
            for text in sentences_on(self._rounds_of[summary.case])
        ]
        for summary, text in found[:MOST_EXPLAINED]:
            is_only = len(self._summaries) == 1
            yield f"{formatting.capitalized(text) if is_only else f'With {self._names.name(summary.case)}, {text}'}."
        if len(found) > MOST_EXPLAINED:
            yield f"{formatting.counted(len(found) - MOST_EXPLAINED, 'more note')} on processes: see below the table."

    def _is_leaner(self, candidate: _Candidate, chosen: _Candidate) -> bool:
        own, other = candidate.measured["memory_bytes"], chosen.measured["memory_bytes"]
        if own is None or other is None or candidate.memory_bytes > MUCH_LESS * chosen.memory_bytes:
            return False
        return differ(own, other, len(self._sound) * (len(self._sound) - 1) // 2)

    def _detectable(self) -> Iterator[str]:
        """Yield a sentence with the smallest difference between the fastest cases that 80 % of runs would detect."""
        rates = [candidate.rate for candidate in self._first if candidate.rate.degrees]
        if len(rates) < 2:
            return
        error = (2 * median(rate.variance for rate in rates)) ** 0.5
        degrees = median(rate.degrees for rate in rates)
        needed = (student_at(degrees, 1 - self._alpha) + student_at(degrees, POWER)) * error
        difference, power = formatting.share(math.expm1(needed)), formatting.share(POWER)
        yield f"A difference of {difference} would show in {power} of runs like this one; a smaller one may be missed."

    def _fastest_verified(self) -> Iterator[str]:
        if self._first:
            fastest = max(self._first, key=lambda candidate: candidate.rate.log)
            yield f"The fastest verified {self._noun} is {fastest.plain}: {fastest.throughput}."
        elif self._sound:
            fastest = max(self._sound, key=lambda candidate: candidate.rate.log)
            yield f"In this round, the fastest {self._noun} was {fastest.plain}: {fastest.throughput}."

    def _left_out(self, chosen: _Candidate | None = None) -> Iterator[str]:
        """Yield a sentence that lists the cases without a rank, and says which may be as fast as the chosen case."""
        contenders = [
            candidate.summary
            for candidate in self._unclear
            if chosen and not is_worse(candidate.rate, chosen.rate, self._alpha)
        ]
        names: dict[str, list[str]] = {}
        for summary in self._summaries:
            if summary.verdict != OK:
                why = f"{summary.verdict}, possibly as fast" if summary in contenders else summary.verdict
                names.setdefault(why, []).append(self._names.numbered(summary.case))
        if names:
            yield f"Not ranked: {'; '.join(f'{_names(of_why)} ({why})' for why, of_why in names.items())}."


NONE = "No recommendation by throughput"
IDLE_CPUS = 0.3  # a server that uses fewer CPUs than this mostly waits
QUEUED = 2.0  # responses that take this many times as long as without other users wait for each other


def shared_limit(cases: Sequence[Summary], alone_s: Mapping[Any, float | None]) -> str:
    """Return a headline that says what limits all servers alike, or an empty string if throughput differs.

    Args:
        cases: all cases of one load.
        alone_s: the response time of an idle server, by the work of a case.
    """
    if len({case.server for case in cases}) < 2 or any(case.task for case in cases):
        return ""
    if any(case.verdict != OK or case.rank != 1 for case in cases):
        return ""
    busy = [case.rate * case.cpu_s_per_transaction for case in cases if case.cpu_s_per_transaction]
    if len(busy) < len(cases) or max(busy) > IDLE_CPUS:
        return ""
    share = f"each uses at most {formatting.share(max(busy))} of a CPU"
    waits = [(case.response_s.p50, alone_s.get(case.case.work)) for case in cases if case.response_s]
    if waits and all(p50_s and idle_s and p50_s > QUEUED * idle_s for p50_s, idle_s in waits):
        return f"{NONE}: all servers wait for something they share, such as a database or another service; {share}."
    if paces := labels(cases[0].case, PACES):
        return f"{NONE}: every server keeps up with this load ({paces[0]}); {share}."
    return f"{NONE}: {cases[0].users} users are too few to reach the limit of any server; {share}. Use more --users."


def _least(chosen: _Candidate, others: Sequence[_Candidate]) -> str:
    """Return in what a case is better than others with the same throughput."""
    if not chosen.changes_code and any(other.changes_code for other in others):
        rest = [other for other in others if not other.changes_code]
        return " and ".join(["it needs no change of the code", *([_least(chosen, rest)] if rest else [])])
    is_known = _have_known_memory([chosen, *others])
    if is_known and all(chosen.memory_bytes < other.memory_bytes for other in others):
        return "it needs the least memory"
    rest = [other for other in others if not is_known or other.memory_bytes == chosen.memory_bytes]
    if all(chosen.ping_s < other.ping_s for other in rest):
        return "its health checks are the quickest"
    return "the others are no better"


def _have_known_memory(candidates: Sequence[_Candidate]) -> bool:
    return all(candidate.memory_bytes for candidate in candidates)


def _of_waiting_requests(summary: Summary) -> Iterator[str]:
    """Yield a sentence for each request of a mix that waits for a longer one."""
    for request, longer in list(waiting(summary.requests))[:MOST_WAITING]:
        alone, mixed = (formatting.seconds(value or 0.0) for value in (request.alone_s, request.response_s.p99))
        yield f"{request.path} waits for {longer.path}: {alone} alone, {mixed} (p99) in this mix."


def _of_stutter(summary: Summary) -> Iterator[str]:
    """Yield a sentence about the stutter of streams that users notice."""
    gap = summary.gap_s
    p99_s = summary.later_gap_p99_s if summary.head_start_s else gap and gap.p99
    if gap and gap.p50 and p99_s and summary.stutters:
        yield (
            f"Streams stutter: one gap in 100 takes {formatting.seconds(p99_s)} or longer, "
            f"but the median gap {formatting.seconds(gap.p50)}; {PROGRAM} profile names the code that blocks."
        )


def _p50_and_p99(times: EventTimes) -> str:
    known = [f"{formatting.seconds(value)} {name}" for name, value in (("p50", times.p50), ("p99", times.p99)) if value]
    return ", ".join(known) or f"longer than {formatting.seconds(times.max)}"


def noun_of(comparison: Comparison) -> str:
    """Return the noun for a case: `strategy`, `server` or, if all cases have the same server, `route` or `setting`."""
    servers = [summary.server for summary in comparison.cases]
    if comparison.result.suite is None or len(set(servers)) > 1 or len(servers) < 2:
        return noun(comparison.result)
    return "route" if "path" in CaseNames(comparison.cases).axes else "setting"


def _names(names: Sequence[str]) -> str:
    """Return text such as `servers 1, 2 and 6`; if a name is not a number, list only the first `MOST_NAMES`."""
    if all(name.isdecimal() for name in names):
        return f"{'server' if len(names) == 1 else 'servers'} {listed(names)}"
    return listed(names, MOST_NAMES)


def _is_understated(summary: Summary) -> bool:
    """Return whether the rate is suspect only because generating the load took CPU time from the server."""
    return summary.verdict == SUSPECT and {
        reason.code for reason in summary.reasons if verdict_of([reason]) == SUSPECT
    } == {GENERATOR}


def _times(factor: Estimate) -> str:
    edges = factor.interval()
    margin = f" ± {formatting.significant((edges[1] - edges[0]) / 2, 2)}" if edges else ""
    return f"{formatting.significant(factor.mean, 3)}{margin}"


def _share_of(candidate: _Candidate, chosen: _Candidate) -> str:
    return formatting.share(math.exp(candidate.rate.log - chosen.rate.log))
