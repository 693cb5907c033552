"""Helpers for tests of load tools, and their recorded output.

`python tests/support/load_tool_checks.py [TOOL]...` records the output of all load tools, or of these: for each
behaviour of the scripted server, a `ToolOutput` in tests/data/tools.
"""

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from load_specs import load_spec
from scripted_server import running

from common.errors import BadInputError
from under_siege.host.programs import Tool, find, isolated_tool
from under_siege.load import DRIVERS
from under_siege.load.client import Client, ClientOutput
from under_siege.load.tool import LoadSpec, ToolOutput, Totals
from under_siege.record.record import Record
from under_siege.record.requests import Requests

FOLDER = Path(__file__).parents[1] / "data" / "tools"
USERS, TIME_S, BODY, LIMIT_S = 4, 1.0, b"hello", 300
ORDER = load_spec(USERS, TIME_S, "http://127.0.0.1:8000/")
TOOLS = [name for name, driver in DRIVERS.items() if not driver.streams_responses]
WAYS = {  # for each recording, the path, and whether the tool requests keep-alive
    "right": ("/text/hello", False),
    "not_found": ("/text/hello/status/404", False),
    "half_500": ("/text/hello/slow/0.01/every/2/status/500", False),
    "slow": ("/text/hello/slow/0.2", False),
    "refused": ("", False),
    "never": ("/never", False),
    "closed": ("/drop", False),
    "kept_alive": ("/text/hello", True),
    "keep_alive_ignored": ("/text/hello/close", True),
}
LEFT_OUT = {("stressor", "never")}  # stressor would wait for an hour


def needed(name: str) -> None:
    """Skip the test if the tool is not installed."""
    try:
        find(DRIVERS[name])
    except BadInputError as error:
        pytest.skip(str(error))


def skip_version_lookup(patched: pytest.MonkeyPatch) -> None:
    """Don't ask tools for their versions, because starting a tool written in Python takes almost as long as a load.

    test_each_load_tool_reports_its_version tests the versions; test_custom_load_tool.py tests their recording.
    """
    patched.setattr(Tool, "version", lambda tool: tool.driver.requirement.partition("~=")[2] or "1.2.3")


def output_of(tool: Tool, spec: LoadSpec, rows: int | None = None) -> ToolOutput:
    """Run the tool until it ends by itself, or until it has reported `rows` requests; return its output."""
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        streams = {"stdin": subprocess.PIPE, "stdout": stdout, "stderr": stderr, "text": True}
        with subprocess.Popen(tool.command(spec), env=tool.environment(), **streams) as process:
            try:
                if isinstance(tool.driver, Client):
                    process.stdin.write(tool.driver.order(spec, time.monotonic()).decode())
                    process.stdin.flush()  # without closing it, because that would stop the tool
                end_s = time.monotonic() + LIMIT_S
                while rows is not None and process.poll() is None and time.monotonic() < end_s:
                    if os.pread(stdout.fileno(), 1_000_000, 0).count(b"\n[") >= rows:
                        process.terminate()
                        break
                    time.sleep(0.05)
                status = process.wait(LIMIT_S)
            finally:
                process.kill()
        printed = [file.seek(0) or file.read() for file in (stdout, stderr)]
        return ToolOutput(status, *printed, tool.results())


def told_by_client(output: ToolOutput, began_s: float = 0.0) -> tuple[Requests, ClientOutput]:
    """Return a row for each request that the bench's own client reported, and what else it reported."""
    requests = Requests()
    told = ClientOutput(requests, began_s)
    for line in output.stdout.splitlines():
        told.take(json.loads(line))
    return requests, told


def arrived_in_load(record: Record, received: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return the requests that arrived between the beginning of the load and the bench's last check, which follows it.

    They include the other checks.
    """
    last_s = record.load_began_s + record.requests.only("check").sent_s[-1]
    return [one for one in received if record.load_began_s <= one["at"] < last_s]


def recorded(name: str, way: str) -> ToolOutput:
    """Return the recorded output of a tool for a server that behaves in this way."""
    return ToolOutput(**json.loads((FOLDER / f"{name}-{way}.json").read_text()))


def totals_of(name: str, way: str) -> Totals:
    totals = DRIVERS[name].totals(recorded(name, way), ORDER)
    assert totals is not None
    return totals


def _without_this_machine(text: str) -> str:
    """Replace directories, hosts and ports, and keep only the last 40 lines."""
    text = re.sub(r"/\S*/under-siege-\w+", "/home", text)
    text = re.sub(r"127\.0\.0\.1:\d+|(port=|Port: +)\d+", lambda found: (found[1] or "127.0.0.1:") + "8000", text)
    text = re.sub(r"^(\[[-\d :,]+\]) \S+/", r"\1 host/", text, flags=re.MULTILINE)
    text = re.sub(r"File \"/\S*/", 'File "', text)
    return "\n".join(text.splitlines()[-40:])


def _record(name: str, way: str, url: str) -> None:
    path, keep_alive = WAYS[way]
    with isolated_tool(DRIVERS[name]) as tool:
        options = ("-s", "1") if (name, way) == ("ab", "never") else ()
        url = f"{url}{path}" if path else "http://127.0.0.1:9/"
        output = output_of(tool, load_spec(USERS, TIME_S, url, keep_alive=keep_alive, expected=BODY, options=options))
    # The driver of ab reads all 100 lines of its file.
    files = {path: text if name == "ab" else _without_this_machine(text) for path, text in output.files.items()}
    printed = map(_without_this_machine, (output.stdout, output.stderr))
    text = json.dumps(dataclasses.asdict(ToolOutput(output.status, *printed, files)), indent=1)
    (FOLDER / f"{name}-{way}.json").write_text(text + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as server:
        for name in sys.argv[1:] or TOOLS:
            for way in WAYS:
                if (name, way) not in LEFT_OUT:
                    _record(name, way, server.url)
