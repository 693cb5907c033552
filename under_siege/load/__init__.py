"""Load tools: the module of each tool builds its command line and parses its output, but starts no process."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from under_siege.load.ab import Ab
from under_siege.load.locust import Locust
from under_siege.load.request import JOBS
from under_siege.load.siege import Siege
from under_siege.load.stressor import Stressor
from under_siege.load.tool import Driver, LoadSpec
from under_siege.load.wrk import Wrk
from under_siege.paths import script

_BODY, _HEADERS = "body", "headers.json"


class JobsTool(Driver):
    """The bench's own client: each user posts a job (`POST`, 202, `Location`) and polls for its result."""

    name, program = JOBS, sys.executable
    version_options = ("-I", "-c", "import aiohttp; print('aiohttp', aiohttp.__version__)")
    version_pattern = r"(aiohttp \d\S*)"
    response_line = re.compile(
        r"(?P<user>\d{1,6}),(?P<status>\d{3}),(?P<took_s>\d{1,6}\.\d{6}),(?P<size>\d{1,15})", re.ASCII
    )
    streams_responses = waits_to_begin = True
    fixed_threads = "one thread"
    least_s = start_s = 0.0

    def refusal(self, spec: LoadSpec) -> str:
        return "the jobs tool accepts no load-tool options; remove `options`" if spec.options else super().refusal(spec)

    def files(self, spec: LoadSpec) -> dict[str, str | bytes]:
        return {_BODY: spec.request.body, _HEADERS: json.dumps(dict(spec.request.headers))}

    def command(self, program: str, home: Path, spec: LoadSpec) -> list[str]:
        options = ["--users", str(spec.users), "--timeout", f"{spec.timeout_s:.1f}"]
        options += ["--headers", str(home / _HEADERS), "--body", str(home / _BODY)]
        return [program, *script("job_load"), *options, *["--keep-alive"] * spec.keep_alive, spec.url]

    def failures(self, report: str, statuses: Sequence[int]) -> int:  # noqa: ARG002
        match = re.search(r"^lost: (\d{1,9})\s*$", report, re.MULTILINE | re.ASCII)
        return int(match[1]) if match else 0


DRIVERS: dict[str, Driver] = {
    driver.name: driver for driver in (Siege(), Ab(), Wrk(), Locust(), Stressor(), JobsTool())
}
