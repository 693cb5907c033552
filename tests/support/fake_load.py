"""A fake load tool for tests: a program and its driver."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from under_siege.load.tool import Driver, LoadSpec, ToolResponse

PROGRAM = """\
#!{python}
import json, sys, threading, time, urllib.request

def ask(user):
    for _ in range(int(sys.argv[3])):
        began_s = time.monotonic()
        with urllib.request.urlopen(sys.argv[2]) as answer:
            size = len(answer.read())
        told = [user, answer.status, time.monotonic() - began_s, size]
        sys.stdout.write(json.dumps(told) + chr(10))
        sys.stdout.flush()

if sys.argv[1] == "--version":
    print("fake 1.2.3")
    sys.exit()
threads = [threading.Thread(target=ask, args=(user,)) for user in range(int(sys.argv[1]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.stderr.write("lost: 0" + chr(10))
"""


class Fake(Driver):
    """The driver of the fake load tool, which reports each response as a JSON list."""

    name = program = "fake-load"
    version_pattern = r"fake (\S+)"
    settings = {"settings/fake.ini": "[fake]\n"}  # noqa: RUF012 (used by a single test)
    streams_responses = counts_requests = True
    step_s, least_s, start_s = 0.001, 0.0, 0.0

    def install(self, folder: Path) -> None:
        """Write the program into the directory."""
        program = folder / self.name
        program.write_text(PROGRAM.format(python=sys.executable))
        program.chmod(0o755)

    def files(self, order: LoadSpec) -> dict[str, str]:
        return {"order.txt": str(order.users)}

    def command(self, program: str, home: Path, order: LoadSpec) -> list[str]:
        assert (home / "settings" / "fake.ini").read_text() == "[fake]\n"
        assert (home / "order.txt").read_text() == str(order.users)
        return [program, str(order.users), order.url, str(order.load.requests // order.users)]

    def parse_line(self, line: str) -> ToolResponse | None:
        return ToolResponse(*json.loads(line)) if line.startswith("[") else None

    def failures(self, report: str, _statuses: Sequence[int]) -> int:
        return int(report.rpartition("lost: ")[2] or 0)

    def cpus(self, order: LoadSpec) -> int:
        return order.users


class SilentWatcher:
    """A watcher that ignores all events."""

    def __getattr__(self, _name: str):
        return lambda *_: None
