"""Uploads of files: every tool that can send bytes sends the same form."""

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest
from bench_runs import run_once
from command import invoke
from load_tool_checks import needed

from common.errors import BadInputError
from under_siege.judge.ranking import summarize
from under_siege.suite.suite_file import read_suite

SERVER = """
import asyncio, hashlib, sys
from aiohttp import web

def digest(file):
    return hashlib.sha256(file.read()).hexdigest()

async def upload(request):
    form = await request.post()
    file = form["file"].file
    found = await asyncio.to_thread(digest, file) if request.path == "/thread" else digest(file)
    return web.json_response({"sha256": found, "name": form["file"].filename, "note": form["note"]})

async def ping(request):
    return web.Response(text="pong")

app = web.Application(client_max_size=100_000_000)
app.add_routes([web.get("/ping", ping), web.post("/{way}", upload)])
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]))
"""


def suite_with(folder: Path, load_keys: str, size: int = 100_000) -> bytes:
    """Write a suite that uploads random bytes, and return these bytes."""
    content = os.urandom(size) + b"\0\n"
    (folder / "upload.bin").write_bytes(content)
    (folder / "server.py").write_text(SERVER)
    (folder / "suite.toml").write_text(
        f'[load]\nusers = 2\nform = {{ file = "@upload.bin", note = "@@x" }}\n{load_keys}\n[ping]\npath = "/ping"\n'
        f"[expect.json]\nsha256 = '{hashlib.sha256(content).hexdigest()}'\nname = 'upload.bin'\nnote = '@x'\n"
        f"[servers.one]\ncommand = '{sys.executable} server.py {{port}}'\n"
    )
    return content


@pytest.mark.parametrize("tool", ["", "ab", "wrk", "locust"])
def test_every_tool_that_can_send_bytes_uploads_a_file(tool: str, tmp_path: Path) -> None:
    if tool:
        needed(tool)
    suite_with(tmp_path, f'path = "/inline"\n{f"tool = {json.dumps(tool)}" if tool else ""}')
    result, ran = run_once(tmp_path, "suite.toml", "--time", "1s")
    (case,) = summarize(result).cases
    assert case.verdict != "failed", (case.reasons, ran.stderr)
    assert result.records[0].tool == (tool or "client")
    assert case.availability_pct == 100, case.reasons
    is_replaced = "siege can't send a body that contains NUL" in ran.stderr and "the bench's own client" in ran.stderr
    assert is_replaced is not bool(tool)
    assert result.suite.request.endswith("bytes of multipart/form-data")


def test_large_uploads_are_measured_inline_and_in_a_thread(tmp_path: Path) -> None:
    suite_with(tmp_path, 'path = ["/inline", "/thread"]', size=20_000_000)
    result, ran = run_once(tmp_path, "suite.toml", "--time", "3s")
    assert [record.failure for record in result.records] == [None, None], ran.stderr
    for record in result.records:
        assert set(record.transactions.status) == {200}
        assert record.socket_failures == 0


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ('body = "x"', "form is the body and sets its content type; remove body"),
        ('content_type = "text/plain"', "remove body, body_file and content_type"),
        ('method = "GET"', "a GET has no body"),
    ],
)
def test_a_form_with_another_body_is_rejected(keys: str, why: str, tmp_path: Path) -> None:
    suite_with(tmp_path, keys, size=10)
    with pytest.raises(BadInputError) as error:
        read_suite(tmp_path / "suite.toml")
    assert why in str(error.value)


def test_a_missing_file_and_a_tool_that_can_not_upload_cause_a_one_line_error(tmp_path: Path) -> None:
    suite_with(tmp_path, 'tool = "siege"', size=10)
    ran = invoke("run", "suite.toml", folder=tmp_path)
    assert (ran.returncode, "siege can't send a body that contains NUL" in ran.stderr) == (2, True), ran.stderr
    (tmp_path / "upload.bin").unlink()
    ran = invoke("run", "suite.toml", folder=tmp_path)
    assert (ran.returncode, "load.form.file = " in ran.stderr, ran.stderr.count("\n")) == (2, True, 1), ran.stderr
