"""The conclusion: what a comparison says in plain words, the answer first; nothing that its intervals don't carry."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.report import numbers
from common.report.figures.alone import alone_wall_s
from common.report.figures.estimates import Estimate, differ
from common.report.judging.comparison import Comparison
from common.report.judging.summary import Summary
from common.report.judging.verdict import OK
from common.report.words.naming import (
    LONGEST_PLAIN,
    cases_of,
    in_brief,
    load_in_words,
    name_of,
    with_capital,
    without_capital,
)

MOST_NAMES = 6  # in a sentence
_MOSTLY = "99 of 100 pings"
MUCH_LESS = 0.8  # of the memory, and it is worth a word


def conclusion(comparison: Comparison) -> list[str]:
    """Two paragraphs for each load: what to take, and the figures that say so."""
    told = []
    for load in dict.fromkeys(one.case.load for one in comparison.cases):
        told += [" ".join(filter(None, sentences)) for sentences in _Field(comparison, load).told()]
    return [paragraph for paragraph in told if paragraph]


@dataclass(frozen=True, slots=True)
class _Rival:
    """A case that gave numbers which can be trusted."""

    case: Summary
    name: str  # as the table calls it
    measured: dict[str, Estimate | None]
    keeps_pings_short: bool  # shorter than one task: who waits longer was blocked by more than one

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
        """As short as it can be: of a strategy the plain name and its number."""
        return in_brief(self.name, self.case.server, self.case.title)

    @property
    def rate(self) -> float:
        """Transactions per second, at the usual speed of the machine."""
        estimate = self.measured["rate_per_s"]
        assert estimate is not None
        return estimate.mean

    @property
    def ping(self) -> str:
        """How long everybody else waits."""
        ping = self.case.ping_s
        if ping is None:
            return "an unknown time"
        return numbers.seconds(ping.p99) if ping.p99 is not None else f"more than {numbers.seconds(ping.max)}"

    @property
    def ping_s(self) -> float:
        """For sorting."""
        ping = self.case.ping_s
        return float("inf") if ping is None else ping.p99 or ping.max

    @property
    def memory_bytes(self) -> int:
        """For sorting and for a sentence."""
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
        self._rivals = [self._rival(comparison, place) for place in places]
        self._sound = [one for one in self._rivals if one.case.verdict == OK and one.measured["rate_per_s"] is not None]
        self._first = [one for one in self._sound if one.case.rank == 1]

    def _rival(self, comparison: Comparison, place: int) -> _Rival:
        case = comparison.cases[place]
        measured = {figure: of_all[place] for figure, of_all in comparison.measured.items()}
        alone_s, ping = self._alone_s[case.case.work], case.ping_s
        short = alone_s is not None and ping is not None and ping.p99 is not None and ping.p99 < alone_s
        return _Rival(case, name_of(case.case, self._everything), measured, short)

    @property
    def _pairs(self) -> int:
        return len(self._sound) * (len(self._sound) - 1) // 2

    def told(self) -> Iterator[list[str]]:
        """Sentences, paragraph by paragraph."""
        yield [*self._prefix, *self._answer()]
        if self._first and len(self._sound) > 1:
            yield [self._fastest(), self._pings(), *self._undecided(), self._left_out()]
        else:
            yield [self._left_out()]

    def _answer(self) -> Iterator[str]:
        if not self._sound:
            yield "What to take can't be decided: no case gave numbers that can be trusted."
        elif len(self._sound) == 1:
            rival = self._sound[0]
            yield f"Nothing can be compared: only {rival.plain} gave numbers that can be trusted{_share([rival])}."
        elif not self._first:
            yield "What to take can't be decided: one round can't tell a difference from noise, so nothing is ranked."
            yield "Take --rounds 2 or more."
        else:
            yield from self._take()

    def _take(self) -> Iterator[str]:
        short = [rival for rival in self._first if rival.keeps_pings_short]
        chosen = min(short or self._first, key=lambda rival: rival.memory_bytes)
        take, others = f"Take {chosen.plain}: nothing surely does more", f"{_MOSTLY} of everybody else"
        if short:
            yield f"{take}, and {others} take at most {chosen.ping}."
        else:
            yield f"{take}. But {others} take up to {chosen.ping}."
            yield from self._if_nobody_may_wait(chosen)
        yield from self._if_memory_is_short(chosen)

    def _if_nobody_may_wait(self, chosen: _Rival) -> Iterator[str]:
        patient = [rival for rival in self._sound if rival.keeps_pings_short]
        if patient:
            quick = max(patient, key=lambda rival: rival.rate)
            yield f"If nobody may wait: with {quick.plain} it is {quick.ping}, and it does {_part(quick, chosen)}."

    def _if_memory_is_short(self, chosen: _Rival) -> Iterator[str]:
        lean = [rival for rival in self._sound if self._is_leaner(rival, chosen)]
        if lean:
            best = max(lean, key=lambda rival: (rival in self._first, rival.rate))
            does = "as much" if best in self._first else _part(best, chosen)
            blocks = chosen.keeps_pings_short and not best.keeps_pings_short
            waits = f", but {_MOSTLY} take up to {best.ping}" if blocks else ""
            sizes = f"{numbers.megabytes(best.memory_bytes)} instead of {numbers.megabytes(chosen.memory_bytes)}"
            yield f"If memory is short: {best.plain} takes {sizes} and does {does}{waits}."

    def _is_leaner(self, rival: _Rival, chosen: _Rival) -> bool:
        mine, others = rival.measured["memory_bytes"], chosen.measured["memory_bytes"]
        if mine is None or others is None or rival.memory_bytes > MUCH_LESS * chosen.memory_bytes:
            return False
        return differ(mine, others, self._pairs)

    def _fastest(self) -> str:
        first, rest = self._first, [rival for rival in self._sound if rival not in self._first]
        if not rest:
            return f"No {self._noun} is faster than another beyond the noise: all reach {_rates(first)}{_share(first)}."
        following = max(rest, key=lambda rival: rival.case.usual_rate_per_s)
        are = "is the fastest with" if len(first) == 1 else "can't be told from the fastest: they do"
        who = with_capital(_listed([rival.brief for rival in first]), first[0].case.server)
        return (
            f"{who} {are} {_rates(first)}{_share(first)}; the next best, {following.brief}, does {_rates([following])}."
        )

    def _pings(self) -> str:
        """Which keep pings short; the measure is the task itself."""
        known = sorted(seconds for seconds in self._alone_s.values() if seconds is not None)
        pinged = [rival for rival in self._sound if rival.case.ping_s]
        if not pinged or not known:
            return ""
        short = [rival for rival in pinged if rival.keeps_pings_short]
        slow = sorted((rival for rival in pinged if not rival.keeps_pings_short), key=lambda rival: rival.ping_s)
        one = "task" if self._noun == "strategy" else "answer"
        limit = _between(numbers.seconds(known[0]), numbers.seconds(known[-1]))
        if not short:
            return (
                f"None keeps pings short: even with {slow[0].brief} {_MOSTLY} take up to {slow[0].ping}, "
                f"longer than one {one} alone ({limit})."
            )
        told = _listed([f"{rival.brief}: {rival.ping}" for rival in short])
        if not slow:
            return f"{_MOSTLY} take less than one {one} alone ({limit}) with all of them: {told}."
        others = _between(slow[0].ping, slow[-1].ping)
        return f"{_MOSTLY} take less than one {one} alone ({limit}) with {told}; with the others they take {others}."

    def _undecided(self) -> Iterator[str]:
        """The ties behind the fastest."""
        by_rank: dict[int, list[str]] = {}
        for rival in self._sound:
            if rival.case.rank and rival not in self._first:
                by_rank.setdefault(rival.case.rank, []).append(rival.brief)
        for _, names in sorted(by_rank.items()):
            if len(names) > 1:
                yield f"Of {_listed(names)} none can be told from the best of them."

    def _left_out(self) -> str:
        names = [rival.brief for rival in self._rivals if rival.case.verdict != OK]
        return f"Not compared, because suspect, unclear or failed: {_listed(names)}." if names else ""


def _share(rivals: Sequence[_Rival]) -> str:
    shares = sorted(rival.case.of_ceiling.mean for rival in rivals if rival.case.of_ceiling is not None)
    if not shares:
        return ""
    python = " with that Python" if len({rival.case.python for rival in rivals}) > 1 else ""
    return f", {_between(*map(numbers.share, (shares[0], shares[-1])))} of what this machine can do at all{python}"


def _part(rival: _Rival, chosen: _Rival) -> str:
    return f"{numbers.share(rival.rate / chosen.rate)} as much"


def _rates(rivals: Sequence[_Rival]) -> str:
    """As they are compared."""
    rates = sorted(rival.case.usual_rate_per_s for rival in rivals)
    return f"{_between(numbers.rate(rates[0]), numbers.rate(rates[-1]))}/s"


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _listed(names: Sequence[str], word: str = "and") -> str:
    if len(names) > MOST_NAMES + 1:
        names = [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"
