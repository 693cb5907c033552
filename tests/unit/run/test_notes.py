"""Notes below the table: what the records show about connections, cookies, encodings, pings, memory and streams."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from rows import keep_first, places
from simulated_bursts import burst_record_of
from simulated_record import TIME_S, bare_record, record_of, result_of

from under_siege.judge.ranking import summarize
from under_siege.load.streams import places_of_text
from under_siege.record.record import Record, SentRequest
from under_siege.record.requests import CORRECT, LOAD, LONE_PING, PING
from under_siege.show.notes import notes

LATE_US = 300_000  # later than a pause that nobody notices


def notes_on(*records: Record) -> list[str]:
    """Return the notes on these records, without those on the machine."""
    found = notes(summarize(result_of([bare_record(), *records])))
    return [f"{subject}: {text}" for subject, text in found if subject != "machine"]


def leaking() -> Record:
    record = record_of("leaks")
    requests = len(places(record.requests))
    grown = 40e6 + 100_000 * requests * np.linspace(0, 1, len(record.samples.at_s))
    record.samples.memory_bytes[:] = grown.astype(int).tolist()
    return record


def pinged(count: int, alone_s: float | None = None) -> Record:
    """Return a record with so many pings, and perhaps with a single ping that took this long."""
    record = record_of("pinged")
    keep_first(record, count, PING)
    if alone_s:
        record.requests.add(LONE_PING, sent_s=1.0, ended_s=1.0 + alone_s, outcome=CORRECT)
    return record


def streaming(gaps_us: Sequence[int], idle_s: Sequence[float] = (), **values: object) -> Record:
    """Return a record of streams that each have these gaps."""
    record = record_of("streams", has_task=False, stream="sse", idle_events_s=list(idle_s), **values)
    record.requests, lasted_s = record.requests.only(PING), 0.1 + sum(gaps_us) / 1e6
    for at_s in np.arange(0.1, TIME_S - 1, 0.2).tolist():
        events = (100_000, list(gaps_us))
        record.requests.add(LOAD, user=0, sent_s=at_s, ended_s=at_s + lasted_s, outcome=CORRECT, events=events)
    return record


STEADY_S, AT_ONCE_S = [0.05 * number for number in range(1, 21)], [1.0 + number * 1e-5 for number in range(20)]
CHAT = b'{"choices": [{"delta": {"content": "wall"}}]}'
NOTED: dict[str, Callable[[], Record]] = {
    "closed connections": lambda: burst_record_of("closes", kept_alive=0),
    "totals of a mix": lambda: burst_record_of("mix", requests=[]),
    "cookies with siege": lambda: record_of("cookies", sets_cookies=True),
    "cookies with wrk": lambda: burst_record_of("cookies", tool="wrk"),
    "another encoding": lambda: record_of("encoded", browser_encoding="gzip"),
    "a leak": leaking,
    "few pings": lambda: pinged(5),
    "a slow single ping": lambda: pinged(80, alone_s=0.5),
    "buffered": lambda: streaming([20_000] * 20, AT_ONCE_S),
    "buffered by Django": lambda: streaming([20_000] * 20, AT_ONCE_S, consumed_iterators="synchronous"),
    "buffered by Django under WSGI": lambda: streaming([20_000] * 20, AT_ONCE_S, consumed_iterators="asynchronous"),
    "buffered by compression": lambda: streaming([20_000] * 20, AT_ONCE_S, content_encoding="gzip"),
    "an early first event": lambda: streaming([20_000] * 20, [0.01, 1.01, 1.03, 1.05, 1.07]),
    "compressed": lambda: streaming([20_000] * 20, content_encoding="gzip"),
    "compressed for browsers": lambda: streaming([20_000] * 20, browser_encoding="gzip", browser_events_s=AT_ONCE_S),
    "only text counts": lambda: streaming([20_000] * 20, STEADY_S, text_events=list(places_of_text([CHAT]))),
    "only a pattern counts": lambda: streaming([20_000] * 20, STEADY_S, text_events=["/token/"]),
    "a late client": lambda: streaming([20_000] * 20, client_stalls_s=[0.05] * 10),
    "stutter": lambda: streaming([*[10_000] * 20, LATE_US]),
}
SILENT: dict[str, Callable[[], Record]] = {
    "kept connections": lambda: burst_record_of("keeps", kept_alive=10),
    "unknown connections": lambda: burst_record_of("keeps", kept_alive=None),
    "the same encoding": lambda: record_of("encoded", content_encoding="gzip", browser_encoding="gzip"),
    "unknown encoding": lambda: record_of("encoded", browser_encoding=None),
    "many pings": lambda: pinged(80, alone_s=0.001),
    "one by one": lambda: streaming([20_000] * 20, STEADY_S),
    "two pauses": lambda: streaming([20_000] * 20, [*STEADY_S, 1.5, 2.0]),
}


def prepared(make: Callable[[], Record]) -> Record:
    record = make()
    record.keep_alive = record.server in ("closes", "keeps")
    record.sets_cookies = record.server == "cookies"
    record.mix = [SentRequest("GET", "/a"), SentRequest("GET", "/b")] if record.server == "mix" else []
    return record


@pytest.mark.parametrize("what", NOTED)
def test_a_note_describes(what: str, golden: Callable[..., None]) -> None:
    golden(*notes_on(prepared(NOTED[what])))


@pytest.mark.parametrize("what", SILENT)
def test_there_is_no_note_on(what: str) -> None:
    assert notes_on(prepared(SILENT[what])) == []
