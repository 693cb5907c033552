"""Jobs: each user posts one (`POST`, 202, `Location`), and asks for its answer; by a client of our own."""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from under_siege.load_tools.tool import LoadSpec, ToolOutput, ToolResponse, Totals, only_asks, only_one_thread
from under_siege.model.suite import JOBS
from under_siege.paths import script

_LINE = re.compile(r"(?P<user>\d{1,6}),(?P<status>\d{3}),(?P<took_s>\d{1,6}\.\d{6}),(?P<size>\d{1,15})", re.ASCII)


class Jobs:
    """As a driver; see `under_siege.load_tools.tool`. Its program is the Python that runs this."""

    name, program = JOBS, sys.executable
    packages: Mapping[str, str] = MappingProxyType({})
    requirement = ""
    settings: Mapping[str, str] = MappingProxyType({})
    streams_responses = tells_percentiles = waits_to_begin = True
    supports_multiple_paths = is_imitated = False
    step_s = least_s = start_s = 0.0
    results = ()

    def version_command(self, program: str) -> list[str]:
        """The library says which it is."""
        return [program, "-I", "-c", "import aiohttp; print('aiohttp', aiohttp.__version__)"]

    def version(self, said: str) -> str:
        """Such as `aiohttp 3.14.5`."""
        found = re.search(r"aiohttp \d\S*", said)
        return found[0] if found else "unknown"

    def refusal(self, order: LoadSpec) -> str:
        """It does one thing."""
        if order.requests is not None or order.options:
            return "jobs are posted for a time, without further options; take time"
        return only_asks(self.name, order) or only_one_thread(self.name, order)

    def files(self, order: LoadSpec) -> Mapping[str, str]:  # noqa: ARG002 (as the others)
        """None."""
        return {}

    def command(self, program: str, home: Path, order: LoadSpec) -> list[str]:  # noqa: ARG002 (as the others)
        """The words that start it."""
        words = ["--users", str(order.users), "--patience", f"{order.patience_s:.1f}"]
        return [program, *script("job_load"), *words, *["--keep-alive"] * order.keep_alive, order.url]

    def cpus(self, order: LoadSpec) -> int:  # noqa: ARG002 (as the others)
        """It is one thread."""
        return 1

    def totals(self, told: ToolOutput, order: LoadSpec) -> Totals | None:  # noqa: ARG002 (as the others)
        """It tells of every answer."""
        return None

    def arrival(self, line: str) -> ToolResponse | None:
        """A job that has ended."""
        found = _LINE.fullmatch(line.rstrip())
        if found is None:
            return None
        return ToolResponse(int(found["user"]), int(found["status"]), float(found["took_s"]), int(found["size"]))

    def failures(self, report: str, statuses: Sequence[int]) -> int:  # noqa: ARG002 (as the others)
        """Jobs that it has given up."""
        found = re.search(r"^lost: (\d{1,9})\s*$", report, re.MULTILINE | re.ASCII)
        return int(found[1]) if found else 0
