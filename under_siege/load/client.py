"""Drive the bench's own client, which can do what some tools can't: users who pause, and requests at a fixed rate."""

import base64
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from pathlib import Path

from under_siege.load.request import CLIENT, Request
from under_siege.load.tool import Driver, LoadSpec
from under_siege.paths import script
from under_siege.record.record import Streams, append_row

_ORDER, _STREAMS = "order.json", "streams.json"
_ERROR = re.compile(r"^error: (.+?)\s*$", re.MULTILINE)


class Client(Driver):
    """The bench's own client, which runs in a process of its own and reports every response."""

    name, program = CLIENT, sys.executable
    version_options = ("-I", "-c", "import aiohttp; print('aiohttp', aiohttp.__version__)")
    version_pattern = r"(aiohttp \d\S*)"
    response_line = re.compile(
        r"(?P<user>\d{1,6}),(?P<status>\d{3}),(?P<took_s>\d{1,6}\.\d{6}),(?P<size>\d{1,15}),(?P<path>\d{1,4})", re.ASCII
    )
    streams_responses = waits_to_begin = counts_requests = sends_mixes = can_pause = sends_arrivals = True
    reads_streams = True
    results = (_STREAMS,)
    fixed_threads = "one thread"
    least_s = start_s = 0.0

    def refusal(self, spec: LoadSpec) -> str:
        return f"{self.name} accepts no load-tool options; remove `options`" if spec.options else super().refusal(spec)

    def files(self, spec: LoadSpec) -> dict[str, str | bytes]:
        requests = [(spec.url_of(path), one) for path, one in spec.mix] or [(spec.url, spec.request)]
        order = {
            "requests": [self._encoded(url, request) for url, request in requests],
            "order": spec.order or [0],
            "users": spec.users,
            "count": spec.requests,
            "pause": astuple(spec.pause) if spec.pause else None,
            "arrivals_per_s": spec.arrivals_per_s,
            "time_s": spec.time_s,
            "seed": spec.seed,
            "timeout_s": spec.timeout_s,
            "keep_alive": spec.keep_alive,
            "posts_jobs": self.name != CLIENT,
            "stream": asdict(spec.stream) if spec.stream else None,
            "rule": asdict(spec.rule),
            "events": [base64.b64encode(event).decode() for event in spec.events],
            "event_count": spec.event_count,
            "stagger_s": spec.stagger_s,
        }
        return {_ORDER: json.dumps(order)}

    @staticmethod
    def _encoded(url: str, request: Request) -> tuple[object, ...]:
        return url, request.method, request.headers, base64.b64encode(request.body).decode()

    def command(self, program: str, home: Path, spec: LoadSpec) -> list[str]:  # noqa: ARG002
        return [program, *script("client_load"), str(home / _ORDER), str(home / _STREAMS)]

    def streams(self, results: Mapping[str, str], began_s: float) -> Streams | None:
        if not (text := results.get(_STREAMS)):
            return None
        written = json.loads(text)
        streams = Streams(late_s=written["late_s"])
        for user, sent_s, ended_s, *events in sorted(written["streams"], key=lambda row: float(row[1])):
            append_row(streams, user, round(sent_s - began_s, 6), round(ended_s - began_s, 6), *events)
        return streams

    def errors(self, report: str) -> list[str]:
        return _ERROR.findall(report)

    def failures(self, report: str, statuses: Sequence[int]) -> int:  # noqa: ARG002
        match = re.search(r"^lost: (\d{1,9})\s*$", report, re.MULTILINE | re.ASCII)
        return int(match[1]) if match else 0
