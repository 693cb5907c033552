"""Events are found in the bytes of a stream, whatever the pieces in which these arrive, and compared one by one."""

import pytest

from under_siege.load import streams
from under_siege.load.body_rule import BodyRule
from under_siege.load.request import RightAnswer, Stream
from under_siege.load.streams import EventCheck, EventParser, counts, places_of_text
from under_siege.record.record import CaseFailedError

SSE = (
    b"\xef\xbb\xbf: heartbeat\n\ndata: one\nid: 1\n\nevent: token\ndata: two\ndata:lines\n\nretry: 10\n\n"
    b"data\n\ndata: \xff\r\n\r\ndata: mixed\r\rdata: cut off"
)
EVENTS = [b"one", b"two\nlines", b"", b"\xff", b"mixed"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(SSE)])
def test_server_sent_events_are_parsed_by_the_standard(size: int) -> None:
    parser = EventParser("sse")
    pieces = [SSE[begin : begin + size] for begin in range(0, len(SSE), size)]
    assert [event for piece in pieces for event in parser.feed(piece)] + parser.end() == EVENTS


@pytest.mark.parametrize("line", [b"data: xxxx\n", b"data: "])
def test_an_event_without_an_end_is_read_up_to_a_limit(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_EVENT_BYTES", 1000)
    parser = EventParser("sse")
    with pytest.raises(CaseFailedError, match="an event of the stream is longer than"):
        list(map(parser.feed, [line] * 1000))
    assert len(list(map(EventParser("sse").feed, [b"data: xxxx\n\n"] * 1000))) == 1000  # many short events


@pytest.mark.parametrize("size", [1, 4, 100])
def test_lines_are_events_even_without_a_final_line_break(size: int) -> None:
    parser, text = EventParser("lines"), b'{"a": 1}\n\n{"a": 2}\r\nlast'
    pieces = [text[begin : begin + size] for begin in range(0, len(text), size)]
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.end()
    assert events == [b'{"a": 1}', b'{"a": 2}', b"last"]


@pytest.mark.parametrize(
    ("rule", "count", "events", "problem"),
    [
        (BodyRule(), 2, [b"a", b"b"], ""),
        (BodyRule(), 2, [b"a", b"c"], "event 2: different bytes"),
        (BodyRule(), 2, [b"a"], "1 events instead of 2"),
        (BodyRule(), 2, [b"a", b"b", b"c"], "3 events instead of 2"),
        (BodyRule(), None, [b"a", b"b", b"c"], ""),
        (BodyRule(), None, [], "no event"),
        (BodyRule("any"), None, [b"x"], ""),
        (BodyRule("any"), 2, [b"x"], "1 events instead of 2"),
        (BodyRule("pattern", pattern="^b"), None, [b"a", b"b", b"[DONE]"], ""),
        (BodyRule("pattern", pattern="DONE"), None, [b"a", b"b", b"[DONE]"], ""),
        (BodyRule("pattern", pattern="^c"), None, [b"a", b"b", b"a"], "nothing matches '^c'"),
        (BodyRule("fields", fields=(("n", 1),)), None, [b'{"n": 1}', b'{"n": 1, "m": 2}', b"[DONE]"], ""),
        (BodyRule("fields", fields=(("n", 1),)), None, [b'{"n": 1}', b"{}"], "event 2: "),
    ],
)
def test_events_are_compared_one_by_one(rule: BodyRule, count: int, events: list[bytes], problem: str) -> None:
    check = EventCheck(rule, [b"a", b"b"], count, Stream("sse"))
    for event in events:
        check.take(event)
    assert check.problem().startswith(problem)
    assert bool(check.problem()) == bool(problem)


def test_json_in_events_is_compared_field_by_field() -> None:
    check = EventCheck(BodyRule("json", ignored=("id",)), [b'{"id": 1, "text": "a"}'], 1, Stream("sse"))
    check.take(b'{"text": "a", "id": 9}')
    assert check.problem() == ""
    check = EventCheck(BodyRule("json", ignored=("id",)), [b'{"id": 1, "text": "a"}'], 1, Stream("sse"))
    check.take(b'{"text": "b", "id": 9}')
    assert "text" in check.problem()


def test_where_a_chunk_ends_does_not_matter() -> None:
    for pieces, is_right in (([b"abc"], True), ([b"a", b"bc"], True), ([b"a", b"b"], False), ([b"abd"], False)):
        check = EventCheck(BodyRule(), [b"ab", b"c"], 2, Stream("chunks"))
        for piece in pieces:
            check.take(piece)
        assert (check.problem() == "") is is_right


FORMATS = {  # events without text, and with text, as the services send them
    "OpenAI's chat completions": (
        [
            b'{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}',
            b'{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
            b'{"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}',
            b"[DONE]",
        ],
        [
            b'{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" wall"}}]}',
            b'{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"reasoning_content":"Hm"}}]}',
            b'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}',
        ],
    ),
    "OpenAI's responses": (
        [
            b'{"type":"response.created","response":{"id":"r1","status":"in_progress"}}',
            b'{"type":"response.content_part.added","part":{"type":"output_text","text":""}}',
            b'{"type":"response.output_text.done","text":"wall"}',
            b'{"type":"response.completed","response":{"usage":{"output_tokens":2}}}',
        ],
        [b'{"type":"response.output_text.delta","item_id":"m1","delta":" wall"}'],
    ),
    "Anthropic's messages": (
        [
            b'{"type":"message_start","message":{"role":"assistant","content":[],"usage":{"output_tokens":1}}}',
            b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
            b'{"type":"ping"}',
            b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}',
            b'{"type":"message_stop"}',
        ],
        [
            b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" wall"}}',
            b'{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}',
        ],
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_in_the_format_of_a_language_model_only_events_with_text_count(name: str) -> None:
    without, with_text = FORMATS[name]
    stream = Stream("sse", text=places_of_text([*without, *with_text]))
    assert [counts(event, stream) for event in (*without, *with_text)] == [False] * len(without) + [True] * len(
        with_text
    )


def test_in_an_unknown_format_all_events_count_but_the_last_of_a_language_model() -> None:
    events = [b"wall", b'{"type": "text", "delta": "wall"}', b'{"choices": ["a"]}', b'["delta"]', b"1"]
    assert places_of_text(events) == ()
    assert [counts(event, Stream("sse")) for event in (*events, b"[DONE]")] == [True] * len(events) + [False]


@pytest.mark.parametrize(
    ("place", "counted"),
    [
        ("choices[0].delta.content", [b'{"choices": [{"delta": {"content": "a"}}]}']),
        ("n", [b'{"n": 0}', b'{"n": 1}']),
        ("/^[ab]$/", [b"a", b"b"]),
    ],
)
def test_the_user_says_which_events_count(place: str, counted: list[bytes]) -> None:
    others = [b'{"choices": [{"delta": {"content": ""}}]}', b'{"choices": []}', b'{"n": null}', b'{"n": []}', b"ab"]
    stream = Stream("sse", text=(place,))
    assert all(counts(event, stream) for event in counted)
    assert not any(counts(event, stream) for event in others)


def test_a_stream_without_text_is_wrong() -> None:
    check = EventCheck(BodyRule("any"), [], None, Stream("sse", text=("/a/",)))
    assert check.take(b"b") is False
    assert check.problem() == "no event with text"
    assert check.take(b"a") is True
    assert check.problem() == ""


@pytest.mark.parametrize(
    ("text", "is_error"),
    [
        (b"event: error\ndata: overloaded\n\n", True),
        (b'data: {"type": "error", "error": {"type": "overloaded_error"}}\n\n', True),
        (b'data: {"error": {"message": "Rate limit"}}\n\n', True),
        (b'data: {"jsonrpc": "2.0", "id": 1, "result": {"isError": true}}\n\n', True),
        (b'data: {"error": true}\n\n', True),
        (b'data: {"data": null, "errors": [{"message": "no such field"}]}\n\n', True),
        (b'data: {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602}}\n\n', True),
        (b'data: {"error": false}\n\n', False),
        (b'data: {"error": "", "errors": []}\n\n', False),
        (b'data: {"error": {}, "errors": null}\n\n', False),
        (b'data: {"errors": 3}\n\n', False),
        (b'data: {"jsonrpc": "2.0", "id": 1, "result": {"isError": false}}\n\n', False),
        (b"event: error\n\ndata: this event has no name\n\n", False),
        (b'data: {"text": "no", "error": null}\n\n', False),
        (b'data: {"loss": 0.2, "error": 0.03}\n\n', False),
        (b'data: "an \\"error\\" in a text"\n\n', False),
    ],
)
def test_a_stream_that_reports_an_error_is_wrong_whatever_the_rule(text: bytes, is_error: bool) -> None:
    for rule in (BodyRule("any"), BodyRule("pattern", pattern=".")):
        check = EventCheck(rule, [b"a"], None, Stream("sse"))
        for event in EventParser("sse").feed(b"data: a\n\n" + text):
            check.take(event)
        assert ("an error as event 2: " in check.problem()) is is_error


def test_a_stream_may_report_an_error_if_the_reference_does() -> None:
    events = tuple(EventParser("sse").feed(b"event: error\ndata: expected\n\n"))
    right = RightAnswer.from_json(RightAnswer(events=events).to_json())
    check = EventCheck(BodyRule(), right.events, 1, Stream("sse"))
    check.take(events[0])
    assert check.problem() == ""


def test_an_empty_piece_between_the_bytes_of_a_line_break_ends_no_event() -> None:
    parser = EventParser("sse")
    pieces = b"data: a\r", b"", b"\ndata: b\r\n\r\n"
    assert [event for piece in pieces for event in parser.feed(piece)] == [b"a\nb"]


@pytest.mark.parametrize(("stream", "problem"), [(Stream("sse"), "without [DONE]"), (Stream("sse", most_events=1), "")])
def test_a_stream_that_ends_early_lacks_its_last_event(stream: Stream, problem: str) -> None:
    whole = [b'{"text": "a"}', b"[DONE]"]
    for events, expected in ((whole, ""), (whole[:1], problem)):
        check = EventCheck(BodyRule("any"), whole, None, stream)
        for event in events:
            check.take(event)
        assert check.problem().endswith(expected)
        assert bool(check.problem()) == bool(expected)
