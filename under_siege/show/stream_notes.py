"""Write notes on streams: events that a server or proxy holds back, compression, and a client that reads too late."""

from collections.abc import Iterator, Sequence
from statistics import median

from under_siege import formatting
from under_siege.judge.estimators import lateness_s
from under_siege.judge.ranking import Comparison
from under_siege.judge.round_statistics import Round
from under_siege.judge.stream_statistics import head_start_s, is_buffered
from under_siege.judge.suspicions import is_busy
from under_siege.load.request import SSE
from under_siege.load.streams import TEXT_FORMATS
from under_siege.paths import PROGRAM
from under_siege.record.record import Record
from under_siege.show.case_names import CaseNames

LATE_S, LATE_SHARE = 0.005, 0.1  # a note is shown if the client read this late, and at least this share of the gap p99


def notes_on_streams(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield each note as the names of the cases that it applies to, and its text."""
    names = CaseNames(comparison.cases)
    if stuttering := [names.full(case.case) for case in comparison.cases if case.stutters]:
        yield (
            ", ".join(stuttering),
            "streams stutter: one gap in 100 takes 100 ms or longer, and at least twice the median; "
            f"{PROGRAM} profile names code that blocks the event loop or holds the GIL",
        )
    for text_of in (_text, _early, _buffered, _compressed, _late):
        alike: dict[str, list[str]] = {}
        for case, rounds in zip(comparison.cases, comparison.rounds, strict=True):
            if case.has_streams and (text := text_of(rounds, case.gap_s.p99 if case.gap_s else None)):
                alike.setdefault(text, []).append(names.full(case.case))
        yield from ((", ".join(same), text) for text, same in alike.items())


def text_note(places: Sequence[str]) -> str:
    """Return a sentence that says which events count, for the paths and patterns of a record."""
    names = (name for name, (_, paths) in TEXT_FORMATS.items() if paths == tuple(places))
    if name := next(names, ""):
        return (
            f"the format of {name} was recognized, so only events with text count: `first text` is the time to the "
            "first of them; to count other events, use --first, or load.first in a suite"
        )
    return f"only events with {' or '.join(places)} count: `first text` is the time to the first of them"


def _text(rounds: Sequence[Round], _: float | None) -> str:
    places = rounds[0].record.text_events
    return text_note(places) if places else ""


def _early(rounds: Sequence[Round], _: float | None) -> str:
    early_s = median(head_start_s(run.record.idle_events_s) for run in rounds)
    if not early_s:
        return ""
    about = formatting.seconds(float(f"{early_s:.1g}"))
    return (
        f"the first event comes about {about} before the others, even if no other stream is in "
        "progress: it may contain no text yet, so the time to it is not the time to the first text; --first says which "
        "events count"
    )


def _buffered(rounds: Sequence[Round], _: float | None) -> str:
    buffered = [run.record.idle_events_s for run in rounds if is_buffered(run.record.idle_events_s)]
    if 2 * len(buffered) <= len(rounds):
        return ""
    took_s = formatting.seconds(median(events_s[-1] for events_s in buffered))
    return (
        f"buffered: the events of a stream of {took_s} arrive at once or in groups, although no other stream is in "
        f"progress, so users wait as if there were no stream. {_cause(rounds[0].record)}"
    )


def _cause(record: Record) -> str:
    """Say what holds events back: first what the server itself says, then what it sends."""
    if kind := record.consumed_iterators:
        interface, other = ("ASGI", "an asynchronous") if kind == "synchronous" else ("WSGI", "a synchronous")
        return (
            f"Django warned that StreamingHttpResponse reads {kind} iterators to their end before it sends them under "
            f"{interface}: pass {other} iterator"
        )
    if record.content_encoding:
        return f"They are compressed with {record.content_encoding}: {_exclude(record)}"
    return (
        "A middleware or proxy that compresses (nginx: gzip_types) or waits for full buffers, or the server itself, "
        "holds them back"
    )


def _exclude(record: Record) -> str:
    """Say what to do about compression that holds events back."""
    what = "text/event-stream" if record.stream == SSE else "the content type of the stream, such as NDJSON,"
    return f"exclude {what} from compression (middleware or proxy)"


def _compressed(rounds: Sequence[Round], _: float | None) -> str:
    """Describe the compression of the streams or, if only browsers get them compressed, of those."""
    record = rounds[0].record
    if record.content_encoding:
        return "" if is_buffered(record.idle_events_s) else f"streams are compressed with {record.content_encoding}"
    if not record.browser_encoding:
        return ""
    held_back = is_buffered(record.browser_events_s)
    arrive = f"at once or in groups: {_exclude(record)}" if held_back else "one by one"
    encoding = record.browser_encoding
    return f"browsers get streams compressed with {encoding}, other than this load; their events arrive {arrive}"


def _late(rounds: Sequence[Round], gap_p99_s: float | None) -> str:
    late_s = max(lateness_s(run.record.client_stalls_s, run.load_s, 99) for run in rounds)
    if gap_p99_s is None or late_s <= max(LATE_S, LATE_SHARE * gap_p99_s):
        return ""
    late = f"the client read 1 % of events at least {formatting.seconds(late_s)} late, so gaps are shorter than shown"
    if any(map(is_busy, rounds)):
        return f"{late}: other programs used the CPUs; measure on a quieter machine"
    return f"the client was the limit: {late}; use fewer users, or leave it a CPU"
