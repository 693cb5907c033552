"""Untrusted output: any line of siege and any response header is parsed or ignored."""

from any_text import any_text
from hypothesis import example, given, settings
from hypothesis import strategies as st

from common.options import MOST_WORKERS
from under_siege.load.http_client import HttpResponse
from under_siege.load.siege import Siege
from under_siege.measure.warm_up import _workers_told
from under_siege.trace.trace_run import assumed_span, reported_spans

QUICK = settings(max_examples=100, deadline=None, derandomize=True, database=None)
LINE = "   4,HTTP/1.1,200,  0.28,      5,/,0,2026-11-20 04:48:55"


@QUICK
@given(
    any_text() | st.builds(lambda at, what: LINE[:at] + what + LINE[at + 1 :], st.integers(0, len(LINE)), any_text())
)
@example("1,HTTP/1.1,200,1.2.3,5,/,0,2026-11-20 04:48:55")
@example(f"1,HTTP/1.1,200,0.1,{'9' * 5000},/,0,2026-11-20 04:48:55")
@example("\u0664,HTTP/1.1,200,0.1,5,/,0,2026-11-20 04:48:55")
@example("1,HTTP/1.1,\u00b2,0.1,5,/,0,2026-11-20 04:48:55")
def test_any_line_of_siege_is_parsed_or_ignored(line: str) -> None:
    found = Siege().parse_line(line)
    assert found is None or (found.user >= 0 and found.took_s < 1e6 and found.size_bytes < 10**15)
    assert Siege().failures(f"Failed transactions: {line}", []) >= 0


HEADERS = any_text() | st.text("0123456789/.- e;=,taskdurinf\u00b2", max_size=60)


@QUICK
@given(HEADERS)
@example("nan nan/nan/nan")
@example("5 1/2/inf")
@example("5 1/2/-1")
@example("5 0/1e400/1")
def test_an_impossible_x_ran_header_is_ignored(header: str) -> None:
    for since, to, cpu_s in reported_spans(HttpResponse(200, b"", {"x-ran": header}), 4.0, 8.0):
        assert 3.9 < since <= to < 8.1
        assert 0 <= cpu_s < 1e7


@QUICK
@given(HEADERS)
@example("task;dur=1.2.3")
@example("task;dur=99999999999999999999")
@example("task;dur=\u0661")
def test_an_impossible_duration_in_a_server_timing_header_is_limited_to_that_of_the_request(header: str) -> None:
    for since, to, _ in assumed_span(HttpResponse(200, b"", {"server-timing": header}), 4.0, 8.0):
        assert 4.0 <= since <= to == 8.0


@QUICK
@given(HEADERS)
@example("100000000")
@example("\u00b2")
@example("\u0663")
@example("9" * 5000)
def test_an_impossible_number_of_workers_in_a_response_header_is_ignored(header: str) -> None:
    told = _workers_told(HttpResponse(200, b"", {"x-workers": header}))
    assert told is None or 1 <= told <= MOST_WORKERS
