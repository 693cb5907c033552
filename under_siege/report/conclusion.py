"""The conclusion of a comparison in plain words: what it recommends, and how throughput scales."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from under_siege import formatting
from under_siege.analysis.report_data import Comparison, is_worse, level
from under_siege.analysis.summary import Summary
from under_siege.analysis.sweep import Line, Part, Scaling, Sweep, sweeps, told
from under_siege.checks.verdict import FAILED, OK, SUSPECT, UNCLEAR
from under_siege.formatting import between, listed
from under_siege.report.labels import (
    LONGEST_PLAIN,
    cases_of,
    in_brief,
    in_words,
    load_in_words,
    name_of,
    with_capital,
    without_capital,
)
from under_siege.stats.estimates import Estimate, differ, student_at
from under_siege.stats.rounds_data import alone_wall_s

MOST_NAMES = 6  # in a sentence
MUCH_LESS = 0.8  # of the memory, and it is worth a word
ABOUT_AS_FAST = math.log(0.9)  # a case whose interval is wide is not recommended for being slow and uncertain
POWER = 0.8  # with which a difference would have been found


def conclusion(comparison: Comparison) -> list[str]:
    """Return two paragraphs for each load: the recommendation, and the figures behind it."""
    told = []
    for load in dict.fromkeys(one.case.load for one in comparison.cases):
        told += [" ".join(filter(None, sentences)) for sentences in _Field(comparison, load).told()]
    return [paragraph for paragraph in told if paragraph]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A case with a throughput."""

    case: Summary
    name: str  # as the table calls it
    measured: dict[str, Estimate | None]
    rate: Estimate
    keeps_pings_short: bool  # shorter than one task: whoever waits longer was blocked by more than one

    @property
    def plain(self) -> str:
        """What it is, in the words of its title, and the name of its file."""
        what, colon, _ = self.case.title.partition(":")
        what = what.removeprefix("In ").removeprefix("On ")
        if not colon or len(what) > LONGEST_PLAIN or what.lower() == self.case.server.lower():
            return self.name
        return f"{without_capital(what)} ({self.name})"

    @property
    def brief(self) -> str:
        """As short as it can be: for a strategy the plain name and its number."""
        return in_brief(self.name, self.case.server, self.case.title)

    @property
    def ping(self) -> str:
        ping = self.case.ping_s
        if ping is None:
            return "an unknown time"
        return formatting.seconds(ping.p99) if ping.p99 is not None else f"more than {formatting.seconds(ping.max)}"

    @property
    def ping_s(self) -> float:
        ping = self.case.ping_s
        return math.inf if ping is None else ping.p99 or ping.max

    @property
    def memory_bytes(self) -> int:
        return self.case.memory_bytes or 0


class _Field:
    """The cases that are asked for the same."""

    def __init__(self, comparison: Comparison, load: object) -> None:
        self._everything, self._noun = cases_of(comparison.cases), comparison.noun
        places = [place for place, case in enumerate(self._everything) if case.load == load]
        self._cases = [comparison.cases[place] for place in places]
        several = len({case.load for case in self._everything}) > 1
        self._prefix = [f"{load_in_words(self._cases[0].case, self._everything)}:"] if several else []
        works = {one.case.work for one in self._cases}
        self._alone_s = {work: alone_wall_s(comparison.rounds_of(work)) for work in works}
        found = [one for place in places if (one := self._candidate(comparison, place)) is not None]
        self._sound = [one for one in found if one.case.verdict == OK]
        self._uncertain = [one for one in found if one.case.verdict == UNCLEAR]
        self._first = [one for one in self._sound if one.case.rank == 1]
        self._alpha = level(len(found), comparison.looks)

    def _candidate(self, comparison: Comparison, place: int) -> _Candidate | None:
        case = comparison.cases[place]
        measured = {figure: of_all[place] for figure, of_all in comparison.measured.items()}
        rate = measured["rate_per_s"]
        if rate is None or case.verdict not in (OK, UNCLEAR):
            return None
        alone_s, ping = self._alone_s[case.case.work], case.ping_s
        short = alone_s is not None and ping is not None and ping.p99 is not None and ping.p99 < alone_s
        return _Candidate(case, name_of(case.case, self._everything), measured, rate, short)

    def told(self) -> Iterator[list[str]]:
        yield [*self._prefix, *self._answer()]
        if self._first and len(self._sound) > 1:
            yield [self._fastest(), self._detectable(), self._pings(), *self._left_out()]
        else:
            yield [*self._left_out()]

    def _answer(self) -> Iterator[str]:
        if len(self._cases) == 1 and (self._sound or self._uncertain):
            yield from self._described((self._sound or self._uncertain)[0])
        elif self._sound and not self._first:
            yield "No recommendation: these figures have no intervals, so nothing is ranked. Use --rounds 2 or more."
        elif better := self._better_but_uncertain():
            best = max(better, key=lambda one: one.rate.log)
            yield f"No recommendation: {best.plain} measured {_rates([best])}, but that is not verified."
            if self._first:
                fastest = max(self._first, key=lambda one: one.rate.log)
                yield f"The fastest {self._noun} that is verified is {fastest.plain} with {_rates([fastest])}."
        elif len(self._sound) == 1:
            yield from self._described(self._sound[0])
            yield from self._contenders(self._sound[0])
        elif self._sound:
            chosen = self._chosen()
            yield from self._recommended(chosen)
            yield from self._contenders(chosen)
        else:
            yield f"No recommendation: no {self._noun} gave a throughput that can be trusted."

    def _better_but_uncertain(self) -> list[_Candidate]:
        """Return the unverified cases that are faster than every verified one."""
        return [
            one
            for one in self._uncertain
            if all(is_worse(sound.rate, one.rate, self._alpha) for sound in self._first or self._sound)
        ]

    def _described(self, one: _Candidate) -> Iterator[str]:
        edges = one.rate.interval()
        interval = f" (95 % CI {formatting.rate(edges[0])} to {formatting.rate(edges[1])})" if edges else ""
        of_ceiling = f", {_shares([one])} of the ceiling" if _shares([one]) else ""
        pings = f"; health checks take up to {one.ping} (p99)" if one.case.ping_s else ""
        name = with_capital(one.plain, one.case.server)
        yield f"{name} serves {_rates([one])}{interval}{of_ceiling}{pings}."

    def _chosen(self) -> _Candidate:
        best = max(one.rate.log for one in self._first)
        fast = [one for one in self._first if one.rate.log >= best + ABOUT_AS_FAST]
        short = [one for one in fast if one.keeps_pings_short]
        return min(short or fast, key=lambda one: one.memory_bytes)

    def _recommended(self, chosen: _Candidate) -> Iterator[str]:
        use = f"Use {chosen.plain}: no {self._noun} is measurably faster"
        if chosen.keeps_pings_short:
            yield f"{use}, and health checks stay below {chosen.ping} (p99)."
        elif chosen.case.ping_s is None:
            yield f"{use}."
        else:
            yield f"{use}. But health checks take up to {chosen.ping} (p99)."
            yield from self._if_pings_matter(chosen)
        yield from self._if_memory_is_short(chosen)

    def _if_pings_matter(self, chosen: _Candidate) -> Iterator[str]:
        quick = [one for one in self._sound if one.keeps_pings_short]
        if quick:
            best = max(quick, key=lambda one: one.rate.log)
            part = _share_of(best, chosen)
            yield f"If they must be fast: with {best.plain} they take {best.ping}, at {part} of the throughput."

    def _if_memory_is_short(self, chosen: _Candidate) -> Iterator[str]:
        lean = [one for one in self._sound if self._is_leaner(one, chosen)]
        if lean:
            best = max(lean, key=lambda one: (one in self._first, one.rate.log))
            same = "the same throughput" if best in self._first else f"{_share_of(best, chosen)} of the throughput"
            blocks = chosen.keeps_pings_short and not best.keeps_pings_short
            pings = f", but health checks take up to {best.ping}" if blocks else ""
            sizes = f"{formatting.megabytes(best.memory_bytes)} instead of {formatting.megabytes(chosen.memory_bytes)}"
            yield f"If memory is short: {best.plain} uses {sizes}, with {same}{pings}."

    def _is_leaner(self, one: _Candidate, chosen: _Candidate) -> bool:
        mine, others = one.measured["memory_bytes"], chosen.measured["memory_bytes"]
        if mine is None or others is None or one.memory_bytes > MUCH_LESS * chosen.memory_bytes:
            return False
        return differ(mine, others, len(self._sound) * (len(self._sound) - 1) // 2)

    def _contenders(self, chosen: _Candidate) -> Iterator[str]:
        """Name the unverified cases that may be as fast as the chosen one."""
        contenders = [one for one in self._uncertain if not is_worse(one.rate, chosen.rate, self._alpha)]
        if contenders:
            which = "its throughput is" if len(contenders) == 1 else "their throughputs are"
            names = listed([one.brief for one in contenders], MOST_NAMES)
            yield f"{with_capital(names, contenders[0].case.server)} may be as fast: {which} uncertain."

    def _fastest(self) -> str:
        first, rest = self._first, [one for one in self._sound if one not in self._first]
        share = f" ({_shares(first)} of the ceiling)" if _shares(first) else ""
        if not rest:
            return f"No {self._noun} is significantly faster than another: all serve {_rates(first)}{share}."
        following = max(rest, key=lambda one: one.rate.log)
        names = with_capital(listed([one.brief for one in first], MOST_NAMES), first[0].case.server)
        are = "is the fastest with" if len(first) == 1 else "are not significantly different:"
        return f"{names} {are} {_rates(first)}{share}; next is {following.brief} with {_rates([following])}."

    def _detectable(self) -> str:
        """Return the smallest difference between contenders that would have been found, with a power of 80 %."""
        contenders = [one.rate for one in (self._first if len(self._first) > 1 else self._sound) if one.rate.degrees]
        if len(contenders) < 2:
            return ""
        error = (2 * median(one.variance for one in contenders)) ** 0.5
        degrees = median(one.degrees for one in contenders)
        needed = (student_at(degrees, 1 - self._alpha) + student_at(degrees, POWER)) * error
        difference, power = formatting.share(math.expm1(needed)), formatting.share(POWER)
        return f"A difference of {difference} would have been found (power {power})."

    def _pings(self) -> str:
        """Return which cases keep pings short; the measure is the task itself."""
        known = sorted(seconds for seconds in self._alone_s.values() if seconds is not None)
        pinged = [one for one in self._sound if one.case.ping_s]
        if not pinged or not known:
            return ""
        short = [one for one in pinged if one.keeps_pings_short]
        slow = sorted((one for one in pinged if not one.keeps_pings_short), key=lambda one: one.ping_s)
        task = "task" if self._noun == "strategy" else "answer"
        limit = between(formatting.seconds(known[0]), formatting.seconds(known[-1]))
        if not short:
            return (
                f"No {self._noun} keeps health checks (p99) shorter than one {task} alone ({limit}): "
                f"the best is {slow[0].brief} with {slow[0].ping}."
            )
        told = listed([f"{one.brief} {one.ping}" for one in short], MOST_NAMES)
        rest = f"; with the others {between(slow[0].ping, slow[-1].ping)}" if slow else ""
        return f"Health checks (p99) take less than one {task} alone ({limit}) with {told}{rest}."

    def _left_out(self) -> Iterator[str]:
        for verdict, why in (
            (UNCLEAR, "Not ranked, because the figures are uncertain"),
            (SUSPECT, "Not ranked, because the figures can't be believed"),
            (FAILED, "Failed"),
        ):
            names = [
                in_brief(name_of(case.case, self._everything), case.server, case.title)
                for case in self._cases
                if case.verdict == verdict
            ]
            if names:
                yield f"{why}: {listed(names, MOST_NAMES)}."


def _shares(candidates: Sequence[_Candidate]) -> str:
    shares = sorted(one.case.of_ceiling.mean for one in candidates if one.case.of_ceiling is not None)
    return between(formatting.share(shares[0]), formatting.share(shares[-1])) if shares else ""


def _share_of(one: _Candidate, chosen: _Candidate) -> str:
    return formatting.share(math.exp(one.rate.log - chosen.rate.log))


def _rates(candidates: Sequence[_Candidate]) -> str:
    rates = sorted(one.case.usual_rate_per_s for one in candidates)
    return f"{between(formatting.rate(rates[0]), formatting.rate(rates[-1]))} requests/s"


def in_sentences(comparison: Comparison) -> Iterator[str]:
    """Yield a paragraph for each axis and load with a finding."""
    for sweep in sweeps(comparison):
        if sentences := [*of_sweep(sweep, comparison)]:
            load = in_words(sweep.lines[0].case, [name for name, _ in sweep.load if _differs(name, comparison)])
            yield " ".join([f"More {sweep.along}{f', {load}' if load else ''}:", *sentences])


def of_sweep(sweep: Sweep, comparison: Comparison) -> Iterator[str]:
    cases = cases_of(comparison.cases)
    named = [(line, name_of(line.case, cases, without=[sweep.along])) for line in sweep.lines]
    if knees := "; ".join(_knees(named, sweep.along)):
        yield f"{knees}."
    for line, name in named:
        yield from _of_line(line, name, sweep.along)
    yield from _of_laws(named, sweep.along)


def _knees(named: Sequence[tuple[Line, str]], along: str) -> Iterator[str]:
    known = [(line.numbers[line.knee], line, name) for line, name in named if line.knee is not None]
    for at in sorted({at for at, _, _ in known}):
        ended = [(line, name) for number, line, name in known if number == at and line.numbers[-1] > at]
        if ended:
            names, rates = listed([name for _, name in ended], MOST_NAMES), _knee_rates([line for line, _ in ended])
            yield f"beyond {told(along, at)} throughput does not grow with {names} ({rates})"
        if going := [name for number, line, name in known if number == at == line.numbers[-1]]:
            names = listed(going, MOST_NAMES)
            yield f"with {names} throughput grows up to {told(along, at)}, the most that was measured"


def _of_line(line: Line, name: str, along: str) -> Iterator[str]:
    if line.lost:
        yield f"At {told(along, line.numbers[-1])} throughput of {name} is {formatting.share(line.lost)} lower."
    grown = line.pings_grow
    if grown is not None and line.pings is not None:
        first, then, last = (formatting.seconds(line.pings[place].mean) for place in (0, grown, -1))
        values = f"{first}, {then} ... {last}" if grown < len(line.pings) - 1 else f"{first}, {then}"
        yield f"Pings of {name} grow from {told(along, line.numbers[grown])} on ({values}, p99)."


def _of_laws(named: Sequence[tuple[Line, str]], along: str) -> Iterator[str]:
    """Yield the parameters of the law for servers that follow it, and the misfit of those that do not."""
    laws = [(law, line, name) for line, name in named if (law := line.scaling) is not None]
    for law, line, name in laws:
        if law.fits:
            parts = f"σ = {_part(law.contention)}, κ = {_part(law.coherency)}"  # noqa: RUF001 (as Gunther has them)
            end = _peak(law, along, line.numbers[-1])
            yield f"{name} follows the Universal Scalability Law with {parts}{end}."
    if others := [(law.misfit, name) for law, _, name in laws if not law.fits]:
        do, off = "does" if len(others) == 1 else "do", formatting.share(max(others)[0])
        names = listed([name for _, name in others], MOST_NAMES)
        yield f"{names} {do} not follow the Universal Scalability Law: a point is {off} off, which is significant."


def _peak(law: Scaling, along: str, last: float) -> str:
    if law.peak is None or law.peak < 1:
        return ""
    beyond = ", beyond the measured range" if law.peak > last else ""
    return f", with its peak at {formatting.significant(law.peak, 2)} {along}{beyond}"


def _part(part: Part) -> str:
    """Return a parameter with its interval; negative values are shown as 0."""
    value, low, high = (_small(max(0.0, one)) for one in part)
    return f"{value} ({low} to {high})"


def _small(value: float) -> str:
    return "0" if value < 1e-9 else f"{value:.2g}"


def _knee_rates(lines: list[Line]) -> str:
    rates = sorted(line.rates[line.knee or 0].mean for line in lines)
    return formatting.span(rates, lambda rate: f"{formatting.rate(rate)}/s")


def _differs(name: str, comparison: Comparison) -> bool:
    return len({case.case.get(name) for case in comparison.cases}) > 1


def sweeps_as_data(comparison: Comparison) -> list[dict[str, Any]]:
    """An object for each server along each axis of numbers; null is what can't be told.

    `knee` is the first number that none beyond it does more than, `lost` how much less the last one does, as a
    fraction; `scaling` the Universal Scalability Law, of five points or more.
    """
    return [
        {
            "along": sweep.along,
            "server": line.case.server,
            "values": dict(line.case.without([sweep.along]).values),
            "numbers": line.numbers,
            "rates_per_s": [one.mean for one in line.rates],
            "knee": None if line.knee is None else line.numbers[line.knee],
            "lost": line.lost,
            "scaling": line.scaling and _law(line.scaling),
        }
        for sweep in sweeps(comparison)
        for line in sweep.lines
    ]


def _law(law: Scaling) -> dict[str, Any]:
    parts = {name: getattr(law, name)._asdict() for name in ("alone", "contention", "coherency")}
    return {**parts, "fits": law.fits, "misfit": law.misfit, "peak": law.peak if law.fits else None}
