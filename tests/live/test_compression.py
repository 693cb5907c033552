"""Compressed responses: they are decoded before they are checked, and their sizes count as sent."""

import gzip
import sys
import zlib
from pathlib import Path

import pytest
from bench_runs import run_once
from load_tool_checks import needed

from under_siege.judge.ranking import summarize
from under_siege.load.content_encoding import decoded
from under_siege.record.record import CaseFailedError

# It compresses on its event loop, and with a different time in each header, so that no two bodies are the same.
SERVER = """
import gzip, itertools, json, sys
from aiohttp import web
BODY = json.dumps([{"number": number, "name": f"item {number}"} for number in range(3000)]).encode()
times = itertools.count()

async def report(request):
    if "gzip" not in request.headers.get("Accept-Encoding", ""):
        return web.Response(body=BODY)
    body = BODY if sys.argv[2] == "right" else BODY.replace(b"item 7", b"item 8")
    return web.Response(body=gzip.compress(body, 9, mtime=next(times)), headers={"Content-Encoding": "gzip"})

async def ping(request):
    return web.Response(text="pong")

app = web.Application()
app.add_routes([web.get("/ping", ping), web.get("/report", report)])
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]))
"""
SIZE = 100_000  # of the uncompressed body, at least


def measured(folder: Path, load_keys: str, behaviour: str = "right", *expect: str):
    (folder / "server.py").write_text(SERVER)
    (folder / "suite.toml").write_text(
        f'[load]\nusers = 3\npath = "/report"\n{load_keys}\n[ping]\npath = "/ping"\n[expect]\n{"".join(expect)}\n'
        f"[servers.one]\ncommand = '{sys.executable} server.py {{port}} {behaviour}'\n"
    )
    result, ran = run_once(folder, "suite.toml", "--time", "1s")
    (case,) = summarize(result).cases
    return result.records[0], case, ran


@pytest.mark.parametrize("tool", ["siege", "ab", "wrk", "locust", "client"])
def test_every_tool_loads_a_server_that_compresses(tool: str, tmp_path: Path) -> None:
    needed(tool)
    record, case, ran = measured(tmp_path, f'tool = "{tool}"\nheaders = {{ Accept-Encoding = "gzip" }}')
    assert case.verdict != "failed", (case.reasons, ran.stderr)
    assert case.availability_pct == 100, case.reasons
    assert record.content_encoding == "gzip"
    sizes = [*record.transactions.size_bytes]
    sizes += [size / right for size, right in zip(record.bursts.body_bytes, record.bursts.right, strict=True) if size]
    assert bool(sizes) is (tool != "locust")
    assert max(sizes, default=0) < SIZE / 3


def test_a_wrong_compressed_response_is_detected(tmp_path: Path) -> None:
    accept = 'headers = { Accept-Encoding = "gzip" }'
    _, case, _ = measured(tmp_path, accept, "wrong", """pattern = '"number": 7, "name": "item 7"'""")
    assert case.verdict == "failed"
    assert "nothing matches" in case.reasons[0].message


def test_a_note_says_that_browsers_get_another_encoding_than_the_load(tmp_path: Path) -> None:
    record, _, ran = measured(tmp_path, "")
    assert (record.content_encoding, record.browser_encoding) == ("", "gzip")
    assert "browsers get responses encoded with gzip, but this load got them uncompressed" in " ".join(
        ran.stdout.split()
    )
    record, _, ran = measured(tmp_path, 'headers = { Accept-Encoding = "gzip, br" }')
    assert (record.content_encoding, record.browser_encoding) == ("gzip", "gzip")
    assert "browsers get" not in ran.stdout


def test_each_encoding_is_decoded() -> None:
    body = b"a body " * 1000
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    encoded = {
        "": body,
        "identity": body,
        "gzip": gzip.compress(body),
        "x-gzip": gzip.compress(body),
        "deflate": zlib.compress(body),
        "Deflate": raw.compress(body) + raw.flush(),
        "gzip, deflate": zlib.compress(gzip.compress(body)),
    }
    for encoding, sent in encoded.items():
        assert decoded(sent, encoding) == body, encoding
    brotli = pytest.importorskip("brotli")
    assert decoded(brotli.compress(body), "br") == body


@pytest.mark.parametrize(
    ("sent", "encoding", "why"),
    [
        (b"plain text", "gzip", "can't be decoded as gzip"),
        (gzip.compress(b"a body", mtime=0)[:-9], "gzip", "it is incomplete"),
        (b"x", "compress", "the bench can't decode compress: remove it from Accept-Encoding"),
    ],
    ids=["not compressed", "incomplete", "unknown"],
)
def test_a_body_that_can_not_be_decoded_causes_a_one_line_error(sent: bytes, encoding: str, why: str) -> None:
    with pytest.raises(CaseFailedError) as error:
        decoded(sent, encoding)
    assert why in str(error.value)
    assert "\n" not in str(error.value)
