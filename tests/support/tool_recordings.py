"""Recorded output of the load tools. Run `python tests/support/tool_recordings.py` to record all installed tools.

Each file contains a `ToolOutput` of the driver's command, recorded with a server of known behaviour.
"""

import contextlib
import dataclasses
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from common.errors import BadInputError
from under_siege.host.programs import isolated_tool
from under_siege.load import DRIVERS
from under_siege.load.tool import LoadSpec, ToolOutput

FOLDER = Path(__file__).parents[1] / "data" / "tools"
USERS, TIME_S, BODY = 4, 1.0, b"hello"
# For each recording, the behaviour of the server and whether the tool requests keep-alive.
WAYS = {
    "right": ("right", False),
    "not_found": ("not_found", False),
    "half_500": ("half_500", False),
    "slow": ("slow", False),
    "refused": ("refused", False),
    "never": ("never", False),
    "closed": ("closed", False),
    "kept_alive": ("keeps", True),
    "keep_alive_ignored": ("right", True),
}


class Way(BaseHTTPRequestHandler):
    way, number = "right", 0

    def do_GET(self) -> None:
        type(self).number += 1
        if self.way == "closed":
            return
        half = self.way == "half_500" and self.number % 2
        time.sleep({"slow": 0.2, "never": 20, "half_500": 0.01}.get(self.way, 0))
        self.send_response(500 if half else 404 if self.way == "not_found" else 200)
        if self.way == "keeps" and self.headers["Connection"] == "Keep-Alive":
            self.send_header("Connection", "keep-alive")
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:
        pass


class Quiet(ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False

    def handle_error(self, *_: object) -> None:
        """Ignore the errors of connections that a tool closes when it ends."""


@contextlib.contextmanager
def behaving(way: str) -> Iterator[str]:
    """Start a server with this behaviour and yield its URL."""
    handler = type("Handler", (Way,), {"way": way, "protocol_version": f"HTTP/1.{int(way == 'keeps')}"})
    server = Quiet(("127.0.0.1", 0), handler)
    url = f"http://127.0.0.1:{server.server_port}/"
    if way == "refused":
        server.server_close()
        yield url
        return
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield url
    finally:
        server.shutdown()
        server.server_close()


def output_of(name: str, way: str, expected: bytes = BODY) -> tuple[ToolOutput, LoadSpec]:
    """Run the tool with a server of this behaviour; return the tool's output and the load specification."""
    behaviour, keep_alive = WAYS[way]
    with behaving(behaviour) as url, isolated_tool(DRIVERS[name]) as tool:
        order = LoadSpec(USERS, TIME_S, url, keep_alive=keep_alive, expected=expected)
        command = tool.command(order)
        if way == "never" and name == "ab":
            command[command.index("-s") + 1] = "1"
        ran = subprocess.run(command, capture_output=True, text=True, env=tool.environment(), timeout=30, check=False)
        return ToolOutput(ran.returncode, ran.stdout, ran.stderr, tool.results()), order


def without_this_machine(text: str) -> str:
    """Replace directories, hosts and ports, and keep only the last 40 lines."""
    text = re.sub(r"/\S*/under-siege-\w+", "/home", text)
    text = re.sub(r"127\.0\.0\.1:\d+|(port=|Port: +)\d+", lambda found: (found[1] or "127.0.0.1:") + "8000", text)
    text = re.sub(r"^(\[[-\d :,]+\]) \S+/", r"\1 host/", text, flags=re.MULTILINE)
    text = re.sub(r"File \"/\S*/", 'File "', text)
    return "\n".join(text.splitlines()[-40:])


def recorded(name: str, way: str) -> ToolOutput:
    """Return the recorded output of a tool for a server that behaves in this way."""
    return ToolOutput(**json.loads((FOLDER / f"{name}-{way}.json").read_text()))


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or [name for name, driver in DRIVERS.items() if not driver.streams_responses]:
        for way in WAYS:
            if way == "never" and name == "stressor":  # stressor would wait for an hour
                continue
            try:
                output, _ = output_of(name, way)
            except BadInputError as error:
                print(error, file=sys.stderr)
                break
            files = {path: without_this_machine(text) for path, text in output.files.items()}
            if name == "ab":  # its driver reads all 100 lines
                files = output.files
            clean = ToolOutput(
                output.status, without_this_machine(output.stdout), without_this_machine(output.stderr), files
            )
            text = json.dumps(dataclasses.asdict(clean), indent=1)
            (FOLDER / f"{name}-{way}.json").write_text(text + "\n")
