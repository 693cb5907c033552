"""Jobs: each user posts one (`POST`, 202, `Location`), and asks for its answer; by a client of our own."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from under_siege.load_tools.tool import Driver, LoadSpec, ToolResponse, only_asks, only_one_thread
from under_siege.model.suite import JOBS
from under_siege.paths import script

_LINE = re.compile(r"(?P<user>\d{1,6}),(?P<status>\d{3}),(?P<took_s>\d{1,6}\.\d{6}),(?P<size>\d{1,15})", re.ASCII)


class Jobs(Driver):
    """A client of our own, run by the Python of the bench."""

    name, program = JOBS, sys.executable
    version_words = ("-I", "-c", "import aiohttp; print('aiohttp', aiohttp.__version__)")
    version_pattern = r"(aiohttp \d\S*)"
    streams_responses = waits_to_begin = True
    least_s = start_s = 0.0

    def refusal(self, order: LoadSpec) -> str:
        """It does one thing."""
        if order.requests is not None or order.options:
            return "jobs are posted for a time, without further options; take time"
        return only_asks(self.name, order) or only_one_thread(self.name, order)

    def command(self, program: str, home: Path, order: LoadSpec) -> list[str]:  # noqa: ARG002
        """The words that start it."""
        words = ["--users", str(order.users), "--patience", f"{order.patience_s:.1f}"]
        return [program, *script("job_load"), *words, *["--keep-alive"] * order.keep_alive, order.url]

    def arrival(self, line: str) -> ToolResponse | None:
        """A job that has ended."""
        found = _LINE.fullmatch(line.rstrip())
        if found is None:
            return None
        return ToolResponse(int(found["user"]), int(found["status"]), float(found["took_s"]), int(found["size"]))

    def failures(self, report: str, statuses: Sequence[int]) -> int:  # noqa: ARG002
        """Jobs that it has given up."""
        found = re.search(r"^lost: (\d{1,9})\s*$", report, re.MULTILINE | re.ASCII)
        return int(found[1]) if found else 0
