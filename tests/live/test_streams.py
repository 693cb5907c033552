"""Streams of servers whose events come at known times, or that break a stream off."""

import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from bench_runs import run_once
from command import invoke

from under_siege.judge.ranking import summarize
from under_siege.judge.summary import Summary
from under_siege.record.record import Record
from under_siege.report import view_of

# Each path is a stream: `interval` seconds before each of `count` events, unless the function says otherwise.
SERVER = """
import asyncio, sys, time

BROKEN = {"/truncated", "/headers"}
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: %s\\r\\nTransfer-Encoding: chunked\\r\\nConnection: close\\r\\n\\r\\n"
served = {}

async def events(path):
    if path == "/steady":
        for number in range(20):
            await asyncio.sleep(0.05)
            yield b"retry: 10\\ndata: %d\\n\\n: heartbeat\\n\\n" % number
    elif path == "/fast":
        for number in range(50):
            await asyncio.sleep(0.02)
            yield b"data: %d\\n\\n" % number
    elif path == "/pause":
        for number in range(61):
            await asyncio.sleep(0.7 if number == 30 else 0.005)
            yield b"data: {\\r\\ndata: \\"n\\": %d}\\r\\n\\r\\n" % number
    elif path == "/two-pauses":
        for number in range(101):
            await asyncio.sleep(0.4 if number in (30, 60) else 0.004)
            yield b"data: %d\\n\\n" % number
    elif path == "/held-back":
        await asyncio.sleep(0.5)
        yield b"".join(b"data: %d\\n\\n" % number for number in range(20))
    elif path == "/invalid":
        for number in range(10):
            await asyncio.sleep(0.02)
            yield b"data: \\xff\\xfe%d\\n\\n" % number
    elif path == "/large":
        for number in range(3):
            yield b"data: " + b"x" * 1_000_000 + b"\\n\\n"
    elif path == "/many":
        for number in range(100):
            yield b"data: 1\\n\\n" * 1000
    elif path == "/fewer-later":
        served[path] = served.get(path, 0) + 1
        for number in range(20 if served[path] <= 4 else 19):
            await asyncio.sleep(0.01)
            yield b"data: %d\\n\\n" % number
    elif path == "/truncated":
        served[path] = served.get(path, 0) + 1
        for number in range(20):
            await asyncio.sleep(0.01)
            if number == 10 and served[path] > 4 and served[path] % 2:
                return
            yield b"data: %d\\n\\n" % number
    elif path == "/endless":
        while True:
            await asyncio.sleep(0.01)
            yield b"data: again\\n\\n"
    elif path == "/lines":
        for number in range(10):
            await asyncio.sleep(0.02)
            yield b'{"n": %d, "at": %f}\\n' % (number, time.time())

async def serve(reader, writer):
    path = (await reader.readuntil(b"\\r\\n\\r\\n")).split()[1].decode()
    kind = {"/ping": b"text/plain", "/json": b"application/json", "/lines": b"application/x-ndjson"}
    writer.write(HEAD % kind.get(path, b"text/event-stream"))
    try:
        async for data in events(path):
            writer.write(b"%x\\r\\n%s\\r\\n" % (len(data), data))
            await writer.drain()
        if path not in BROKEN or (path == "/truncated" and number_is_even(path)):
            writer.write(b"0\\r\\n\\r\\n")
        await writer.drain()
    except ConnectionError:
        pass
    writer.close()

def number_is_even(path):
    return served[path] <= 4 or served[path] % 2 == 0

async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=256) as server:
        await server.serve_forever()

asyncio.run(main())
"""


@dataclass(frozen=True)
class Measured:
    record: Record
    summary: Summary
    notes: str


def suite(folder: Path, paths: list[str], load: str = "users = 4", more: str = "") -> None:
    (folder / "server.py").write_text(SERVER)
    servers = "".join(
        f'[servers.{path.strip("/")}]\ncommand = "{sys.executable} server.py {{port}}"\npath = "{path}"\n'
        for path in paths
    )
    text = f'[load]\nstream = "sse"\n{load}\n{more}[ping]\npath = "/ping"\n{servers}'
    (folder / "suite.toml").write_text(text)


def measured(folder: Path, time: str = "2s") -> dict[str, Measured]:
    result, _ = run_once(folder, "suite.toml", "--time", time)
    comparison = summarize(result)
    notes = view_of(result, comparison).notes
    by_server = {record.server: record for record in result.records}
    return {
        case.server: Measured(
            by_server[case.server],
            case,
            " ".join(note.text for note in notes if case.server in note.subject),
        )
        for case in comparison.cases
    }


@pytest.fixture(scope="module")
def of_known_streams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Measured]:
    folder = tmp_path_factory.mktemp("streams")
    paths = ["/steady", "/pause", "/two-pauses", "/held-back", "/invalid", "/truncated", "/fewer-later"]
    suite(folder, paths)
    return measured(folder)


def test_gaps_are_measured_as_the_server_makes_them(of_known_streams: dict[str, Measured]) -> None:
    steady = of_known_streams["steady"].summary
    assert steady.gap_s.p50 == pytest.approx(0.05, abs=0.002)
    assert steady.first_event_s.p50 == pytest.approx(0.055, abs=0.01)
    assert of_known_streams["steady"].record.tool == "client"
    assert steady.events_per_s.mean == pytest.approx(4 / 0.05, rel=0.15)
    assert steady.availability_pct == 100


def test_a_single_long_gap_is_the_longest_and_two_of_a_hundred_are_the_percentile(
    of_known_streams: dict[str, Measured],
) -> None:
    one, two = of_known_streams["pause"].summary, of_known_streams["two-pauses"].summary
    assert one.gap_s.max == pytest.approx(0.7, abs=0.05)
    assert two.gap_s.p99 == pytest.approx(0.4, abs=0.05)
    assert two.gap_s.p50 < 0.05


def test_events_of_several_lines_comments_and_invalid_utf_8_are_parsed_by_the_standard(
    of_known_streams: dict[str, Measured],
) -> None:
    counts = {
        name: {len(gaps) + 1 for gaps, outcome in zip(one.gaps_us, one.outcome, strict=True) if not outcome}
        for name in ("steady", "pause", "invalid")
        for one in [of_known_streams[name].record.streams]
    }
    assert counts == {"steady": {20}, "pause": {61}, "invalid": {10}}


def test_events_that_arrive_all_at_once_are_called_buffered(of_known_streams: dict[str, Measured]) -> None:
    assert "buffered" in of_known_streams["held-back"].notes
    assert "buffered" not in of_known_streams["steady"].notes
    assert "buffered" not in of_known_streams["two-pauses"].notes


def test_a_stream_that_breaks_off_or_has_fewer_events_has_failed(of_known_streams: dict[str, Measured]) -> None:
    truncated, fewer = of_known_streams["truncated"].summary, of_known_streams["fewer-later"]
    assert truncated.verdict in ("suspect", "failed")
    assert "broke off after" in str(truncated.reasons)
    assert "19 events instead of 20" in str(fewer.summary.reasons)


def test_large_and_many_events_are_read_and_stored_compactly(tmp_path: Path) -> None:
    suite(tmp_path, ["/large", "/many"], "users = 2")
    found = measured(tmp_path)
    assert {name: one.summary.availability_pct for name, one in found.items()} == {"large": 100, "many": 100}
    events = sum(len(gaps) for gaps in found["many"].record.streams.gaps_us)
    assert events >= 100_000


def test_a_hundred_streams_of_fifty_events_a_second_are_read_in_time_or_the_case_says_so(tmp_path: Path) -> None:
    suite(tmp_path, ["/fast"], "users = 100")
    one = measured(tmp_path)["fast"]
    assert one.summary.metrics["streams_at_once"].value > 50
    is_late = one.record.streams.late_s > 0.005
    assert not is_late or "the client read" in one.notes or one.summary.gap_s.p99 > 0.05


def test_a_stream_that_never_ends_is_closed_after_a_number_of_events_or_a_time(tmp_path: Path) -> None:
    for limit in ("events = 30", 'events = "300ms"'):
        suite(tmp_path, ["/endless"], f"users = 4\n{limit}")
        one = measured(tmp_path)["endless"]
        assert one.summary.availability_pct == 100, one.summary.reasons
        assert max(map(len, one.record.streams.gaps_us)) <= 30
        assert one.summary.gap_s.p50 == pytest.approx(0.01, abs=0.004)


def test_lines_of_json_are_compared_field_by_field(tmp_path: Path) -> None:
    suite(tmp_path, ["/lines"], more='[expect]\nignore = ["at"]\nevents = 10\n')
    text = (tmp_path / "suite.toml").read_text()
    (tmp_path / "suite.toml").write_text(text.replace('stream = "sse"', 'stream = "lines"'))
    assert measured(tmp_path)["lines"].summary.availability_pct == 100
    (tmp_path / "suite.toml").write_text(text.replace('stream = "sse"', 'stream = "lines"').replace('["at"]', '["x"]'))
    assert "expect.ignore" in run_refused(tmp_path)


def run_refused(folder: Path) -> str:
    ran = invoke("run", "suite.toml", "--rounds", "1", "--time", "1s", folder=folder)
    assert (ran.returncode, len(ran.stderr.splitlines()[-1:])) == (2, 1), ran.stderr
    return ran.stderr.splitlines()[-1]


@pytest.mark.parametrize("path", ["/json", "/headers"])
def test_a_response_that_is_no_stream_fails_with_the_reason(path: str, tmp_path: Path) -> None:
    suite(tmp_path, [path])
    (case,) = measured(tmp_path, "1s").values()
    expected = {
        "/json": "content type is application/json: expected text/event-stream",
        "/headers": "broke off after 0 events",
    }[path]
    assert case.summary.verdict == "failed"
    assert expected in case.summary.reasons[0].message


@pytest.mark.parametrize(
    ("load", "why"),
    [
        ('tool = "siege"', "siege can't read the events of a stream"),
        ('tool = "wrk"', "wrk can't read the events of a stream"),
        ('events = "soon"', "load.events = 'soon': expected a number of events, or seconds"),
        ("events = 0", "load.events = 0"),
        ('task = "primes"', "stream can't be combined with"),
    ],
)
def test_a_load_that_streams_do_not_support_causes_a_one_line_error(load: str, why: str, tmp_path: Path) -> None:
    suite(tmp_path, ["/steady"], load)
    assert why in run_refused(tmp_path)


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_a_proxy_that_holds_events_back_is_recognised(tmp_path: Path) -> None:
    """nginx compresses the stream without flushing the compressor, or passes it on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        behind = free.getsockname()[1]
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "start.sh").write_text(
        f'{sys.executable} server.py {behind} & sed "s/PORT/$1/" nginx.conf > used.conf\n'
        'exec nginx -p "$PWD" -c "$PWD/used.conf" -g "daemon off;"\n'
    )
    (tmp_path / "nginx.conf").write_text(
        "pid nginx.pid; error_log stderr; events {}\n"
        "http { access_log off; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t;"
        " scgi_temp_path t; gzip on; gzip_types text/event-stream; gzip_min_length 0;"
        f" server {{ listen 127.0.0.1:PORT; location / {{ proxy_http_version 1.1; proxy_pass http://127.0.0.1:{behind};"
        " } } }\n"
    )
    servers = '[servers.nginx]\ncommand = "sh start.sh {port}"\npath = "/steady"\n'
    headers = 'headers = { Accept-Encoding = "gzip" }\n'
    for more, expected in (("", "browsers get streams compressed with gzip"), (headers, "buffered")):
        (tmp_path / "suite.toml").write_text(
            f'[load]\nstream = "sse"\nusers = 2\n{more}[ping]\npath = "/ping"\n{servers}'
        )
        (found,) = measured(tmp_path).values()
        assert expected in found.notes
        assert "arrive at once" in found.notes


NEIGHBOUR = """
import asyncio
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

app = FastAPI()

async def tokens():
    for number in range(50):
        await asyncio.sleep(0.01)
        yield f"data: {number}\\n\\n"

@app.get("/tokens")
async def stream():
    parse_prompt()
    return StreamingResponse(tokens(), media_type="text/event-stream")

def parse_prompt():
    return sum(number * number % 7 for number in range(2_000_000))

@app.get("/health")
async def health():
    return "ok"
"""


def test_another_stream_that_blocks_the_loop_shows_in_the_gaps_and_is_named_by_the_profile(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(NEIGHBOUR)
    (tmp_path / "suite.toml").write_text(
        '[load]\npath = "/tokens"\nstream = "sse"\nusers = 4\n[ping]\npath = "/health"\n'
        f'[servers.one]\ncommand = "{sys.executable} -m uvicorn --no-access-log --port {{port}} app:app"\n'
    )
    (one,) = measured(tmp_path).values()
    assert one.summary.gap_s.max > 5 * one.summary.gap_s.p50
    ran = invoke("profile", "suite.toml", folder=tmp_path)
    assert "parse_prompt" in ran.stdout, ran.stdout + ran.stderr
