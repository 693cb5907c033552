"""Describe timelines in sentences."""

from collections.abc import Sequence

from under_siege import formatting
from under_siege.judge.case_names import in_brief, in_plain_words, with_name, without_capital
from under_siege.record.result import Result
from under_siege.trace.timeline import NOT_REPORTED, Timeline, TimelinePattern, grouped

_MOST_NAMES = 3  # maximum number of names in line 1 of the headline; if exceeded, it counts them, and line 2 lists them
_NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def full_name(timeline: Timeline, *, is_plain: bool = False) -> str:
    """Return the name in plain words, the file name (only its number if `is_plain`) and the settings."""
    plain = in_plain_words(timeline.server, timeline.title)
    if is_plain:
        brief = in_brief(timeline.server, timeline.server, timeline.title)
        name = plain if brief == timeline.server else brief
    else:
        name = with_name(plain, timeline.server)
    return " · ".join([name, *timeline.settings])


def heading(kind: TimelinePattern, members: Sequence[Timeline]) -> str:
    """Return the heading of a group of timelines, such as `Two at once, and pings are quick`."""
    if kind.is_failed:
        return "Failed"
    if kind.is_crowded:
        return f"Other programs {_too_crowded(members)}"
    if kind.is_parallel is None:
        pings = "pings wait for tasks" if kind.is_stuck else "pings are quick"
        return f"Unknown whether tasks ran in parallel; {pings}"
    if not kind.is_parallel:
        return f"One at a time, {'and pings wait until all are done' if kind.is_stuck else 'but pings are quick'}"
    pings = "but pings queue with the tasks" if kind.is_stuck else "and pings are quick"
    counts = sorted({count for timeline in members if (count := timeline.parallelism)})
    numbers = [_NUMBERS[count] if count < len(_NUMBERS) else str(count) for count in counts]
    return f"{' to '.join(dict.fromkeys([numbers[0], numbers[-1]])).capitalize()} at once, {pings}"


def _too_crowded(members: Sequence[Timeline]) -> str:
    """Return the rest of a sentence that begins with `other programs`."""
    shares = sorted(timeline.other_work or 0.0 for timeline in members)
    used = " to ".join(dict.fromkeys([formatting.share(shares[0]), formatting.share(shares[-1])]))
    return f"used {used} of the CPUs, so this trace can't show whether tasks ran in parallel"


def summary_line(timeline: Timeline) -> str:
    """Return a line with the facts about a timeline that the heading of its group does not show."""
    if timeline.failure:
        return f"failed: {timeline.failure}"
    facts = [f"all {len(timeline.bars)} answered after {formatting.seconds(timeline.done_s)}"]
    if timeline.is_unreported:
        facts.append(NOT_REPORTED)
    elif timeline.pattern.is_crowded:
        facts.append(f"other programs {_too_crowded([timeline])}")
    elif timeline.parallelism is None:
        facts.append("tasks paused, or other programs used the cores")
    if timeline.takes_turns:
        facts.append("tasks take turns")
    if late_s := timeline.longest_late_s:
        facts.append(f"a response was ready {formatting.seconds(late_s)} before it was sent")
    if timeline.pings:
        facts.append(f"pings took up to {formatting.seconds(timeline.longest_ping_s)}")
    return "; ".join(facts)


def headline(drawn: Sequence[Timeline]) -> str:
    groups = grouped(drawn)
    kind, members = groups[0]
    crowded = [timeline for timeline in drawn if timeline.pattern.is_crowded]
    if crowded and (not kind.is_parallel or kind.is_stuck):
        return f"{', '.join(timeline.name for timeline in crowded)}: other programs {_too_crowded(crowded)}"
    if len(groups) == 1:
        return heading(kind, members)
    if not kind.is_parallel or kind.is_stuck:
        return "No strategy here both runs tasks in parallel and keeps pings quick"
    names = formatting.listed([full_name(timeline, is_plain=True) for timeline in members])
    if len(members) > _MOST_NAMES:
        return f"{len(members)} of {len(drawn)} servers: {without_capital(heading(kind, members))}\n{names}"
    return f"{heading(kind, members)}: {names}"


def missing(result: Result) -> list[str]:
    """Return a sentence for each strategy that could not be traced."""
    return [
        f"{with_name(in_plain_words(each.server, each.title), each.server)} is not drawn: it {each.reason}"
        for each in result.left_out
    ]


def request_sentence(timeline: Timeline, number: int) -> str:
    bar, worker = next((bar, lane.worker) for lane in timeline.lanes for bar in lane.bars if bar.number == number)
    answered = f"answered {formatting.seconds(bar.answered_s - bar.sent_s)} after it was sent"
    if bar.done_s is None:
        return f"Request {number} was {answered}; {NOT_REPORTED}."
    start_s = bar.spans[0].from_s
    pauses = "without a pause" if len(bar.spans) == 1 else f"in {len(bar.spans)} parts"
    late = f"; the response was ready {formatting.seconds(bar.late_s)} earlier" if bar.late_s > 0.0005 else ""
    waits_s = [ping.waited_s for ping in timeline.pings if start_s <= ping.due_s <= bar.done_s]
    pings = f" Pings that were due while the task ran took up to {formatting.seconds(max(waits_s))}." if waits_s else ""
    return (
        f"Request {number} waited {formatting.seconds(max(0.0, start_s - bar.sent_s))} for its turn on {worker}. "
        f"Its task took {formatting.seconds(bar.done_s - start_s)}, {pauses}, "
        f"and used {formatting.seconds(bar.cpu_s)} of CPU time. "
        f"It was {answered}{late}.{pings}"
    )
