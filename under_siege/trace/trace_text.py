"""What timelines show, in words: computed from the requests and pings of the trace, and from nothing else."""

from collections.abc import Sequence

from under_siege import formatting
from under_siege.model.record import Result
from under_siege.report.labels import in_plain_words, with_name
from under_siege.trace.timeline import UNTOLD, Bar, Timeline
from under_siege.trace.timeline_patterns import (
    Pattern,
    at_once,
    bars_of,
    computed_s,
    grouped,
    longest_late_s,
    pattern,
    take_turns,
)

_MOST_NAMES = 3  # in a title
_NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
HOW = (
    "A bar is a request, in the lane of the worker that had it: pale blue while it waits for its turn, strong blue "
    "while its task computes, yellow while its answer is ready but not yet sent; the numbers say in which order they "
    "were begun. Where the strong blue is broken or paler, something else had the core. "
    "Below are pings, one every 25 ms: each line is as long as that ping had to wait."
)

GIL = (
    "Why do threads compute one at a time, though there are several cores? Each Python process has a lock, the GIL "
    "(global interpreter lock), and only the thread that holds it can run Python code. "
    "The event loop is such a thread, too, so that pings wait even where each task has a thread of its own: threads "
    "change places every few milliseconds, but nobody sees to it that they do so in turn, and for each step of a ping "
    "(to accept, to read, to answer) the loop has to get the lock anew, against all that compute. "
    "Every process has a lock of its own, so that two of them compute at the same moment."
)


def name_of_timeline(one: Timeline, *, is_narrow: bool = False) -> str:
    """In plain words, with the name of its file, and what it was traced with."""
    server, *differing = one.name.split(" · ")
    told = with_name(in_plain_words(server, one.title), server, is_narrow=is_narrow)
    return " · ".join([told, *differing])


def plain_name_of_timeline(one: Timeline) -> str:
    """In plain words alone."""
    server, *differing = one.name.split(" · ")
    return " · ".join([in_plain_words(server, one.title), *differing])


def heading(kind: Pattern, members: Sequence[Timeline]) -> str:
    """Of a group: `Two at once, and pings are quick`."""
    if kind.is_failed:
        return "Failed"
    if kind.is_crowded:
        return f"Other work {_too_crowded(members)}"
    if kind.at_once is None:
        pings = "pings have to wait for it" if kind.is_stuck else "pings are quick"
        return f"Whether one computes at a time or more can't be told; {pings}"
    if not kind.at_once:
        return f"One at a time, {'and pings are stuck until it is over' if kind.is_stuck else 'but nobody is stuck'}"
    pings = "but pings stand in line with the tasks" if kind.is_stuck else "and pings are quick"
    counts = sorted({count for one in members if (count := at_once(one))})
    return f"{_count(counts).capitalize()} at once, {pings}"


def _too_crowded(members: Sequence[Timeline]) -> str:
    """Continue the sentence `other work …`."""
    shares = sorted(one.other_work or 0.0 for one in members)
    low, high = formatting.share(shares[0]), formatting.share(shares[-1])
    used = low if low == high else f"{low} to {high}"
    return f"used {used} of the CPUs, so this trace can't show whether tasks ran in parallel"


def _count(counts: Sequence[int]) -> str:
    words = [_NUMBERS[count] if count < len(_NUMBERS) else str(count) for count in counts]
    return words[0] if len(words) == 1 else f"{words[0]} to {words[-1]}"


def in_a_line(one: Timeline) -> str:
    """What this one shows beside what its group has in common."""
    if one.failure:
        return f"failed: {one.failure}"
    told = [f"all {one.requests} answered after {formatting.seconds(one.done_s)}"]
    if one.is_untold:
        told.append(UNTOLD)
    elif pattern(one).is_crowded:
        told.append(f"other work {_too_crowded([one])}")
    elif at_once(one) is None:
        told.append("the task waits in between, or something else had the cores")
    if take_turns(one):
        told.append("tasks take turns")
    if late_s := longest_late_s(one):
        told.append(f"an answer was ready {formatting.seconds(late_s)} before it was sent")
    if one.pings:
        told.append(f"pings took up to {formatting.seconds(one.longest_ping_s)}")
    return "; ".join(told)


def in_short(one: Timeline) -> str:
    """Two figures, for where there is little room."""
    if one.failure:
        return f"failed: {one.failure}"
    done, longest = formatting.seconds(one.done_s), formatting.seconds(one.longest_ping_s)
    return f"all {one.requests} answered after {done}; pings ≤ {longest}"


def headline(drawn: Sequence[Timeline]) -> str:
    """What is to be seen in the picture, for a slide."""
    found = grouped(drawn)
    kind, members = found[0]
    crowded = [one for each, several in found if each.is_crowded for one in several]
    if crowded and (not kind.at_once or kind.is_stuck):
        return f"{', '.join(one.name for one in crowded)}: other work {_too_crowded(crowded)}"
    if len(found) == 1:
        return heading(kind, members)
    if kind.at_once and not kind.is_stuck:
        names = [plain_name_of_timeline(one) for one in members]
        who = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        count = "" if len(names) <= _MOST_NAMES else f"{len(names)} of {len(drawn)}\n"
        return f"{heading(kind, members)}: {count}{who}"
    return f"None of these computes several at once and keeps pings quick: {_NUMBERS[len(found)]} ways to wait"


def fate(bar: Bar, worker: str, one: Timeline) -> str:
    """What became of a request, in a sentence."""
    answered = f"answered {formatting.seconds(bar.answered_s - bar.sent_s)} after it was sent"
    if bar.done_s is None:
        return f"Request {bar.number}: {answered}; {UNTOLD}."
    waited = formatting.seconds(max(0.0, bar.ran[0].from_s - bar.sent_s))
    lasted_s, used_s = bar.done_s - bar.ran[0].from_s, computed_s(bar)
    pauses = "without a pause" if len(bar.ran) == 1 else f"in {len(bar.ran)} stretches"
    late = f", and lay ready for {formatting.seconds(late_s)}" if (late_s := bar.late_s or 0.0) > 0.0005 else ""
    meanwhile = [ping.until_s - ping.due_s for ping in one.pings if bar.ran[0].from_s <= ping.due_s <= bar.done_s]
    pings = (
        f" A ping that was due while it was in hand took up to {formatting.seconds(max(meanwhile))}."
        if meanwhile
        else ""
    )
    return (
        f"Request {bar.number} waited {waited} for its turn on {worker}, computed {formatting.seconds(used_s)} within "
        f"{formatting.seconds(lasted_s)}, {pauses}{late}: {answered}.{pings}"
    )


def missing(result: Result) -> list[str]:
    """Who is not drawn, and why."""
    return [
        f"{with_name(in_plain_words(one.server, one.title), one.server)} is not drawn: it {one.reason}"
        for one in result.left_out
    ]


def fates(one: Timeline) -> list[str]:
    """Of all requests, in the order in which they were begun."""
    found = [(bar.number, fate(bar, lane.worker, one)) for lane in one.lanes for bar in lane.bars]
    assert len(found) == len(bars_of(one))
    return [told for _, told in sorted(found)]
