"""Drive Locust with a process for each configured thread, and with a locustfile that reports totals."""

import base64
import contextlib
import json
from dataclasses import astuple
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from under_siege.load.tool import Driver, LoadSpec, ToolOutput, Totals, whole_seconds
from under_siege.record.record import RequestTotals
from under_siege.record.requests import LARGEST, Count

_FILE, _RESULT, _SCRIPT = "locustfile.py", "totals.json", "script.py"
# The locustfile writes its own totals, because Locust's CSV files lack the last second of a run.
_LOCUSTFILE = Path(__file__).with_name("locustfile.template").read_text(encoding="utf-8")
_NO_CONNECTION = ("ConnectionRefused", "Errno 111", "Errno 99", "Cannot assign requested address", "(111,", "(99,")
MARGIN_S = 30
WRONG = "wrong contents"  # the error that our locustfile and scripts report for a wrong body
_Milliseconds = Annotated[float, Meta(ge=0, lt=LARGEST)]


class LocustTotals(msgspec.Struct, frozen=True):
    """The JSON file that the locustfile writes."""

    requests: Count
    took_s: Annotated[float, Meta(gt=0, lt=LARGEST)]
    percentiles_ms: tuple[_Milliseconds, _Milliseconds, _Milliseconds, _Milliseconds]  # p50, p95, p99, maximum
    body_bytes: Count | None
    errors: list[tuple[str, Count]]
    by_request: list[tuple[str, Count, Count, _Milliseconds, _Milliseconds, Count]] = []

    def requests_of_mix(self) -> tuple[RequestTotals, ...]:
        """Return the totals of each request of a mix, in its order."""
        rows = sorted(self.by_request, key=lambda row: int(row[0]))
        return tuple(
            RequestTotals(int(name), count, failed, p50_ms / 1000, p99_ms / 1000, size)
            for name, count, failed, p50_ms, p99_ms, size in rows
        )

    def count(self, *texts: str) -> int:
        """Return the number of errors that contain one of the texts."""
        return sum(count for error, count in self.errors if any(text in error for text in texts))


class Locust(Driver):
    name = program = "locust"
    requirement = "locust~=2.47"
    results = (_RESULT,)
    version_pattern = r"\Alocust (\S+)"
    runs_scripts = sends_mixes = returns_cookies = can_pause = True
    least_s, start_s = 3.0, 1.5

    def files(self, spec: LoadSpec) -> dict[str, str | bytes]:
        text = _LOCUSTFILE.format(
            url=json.dumps(spec.url),
            headers=json.dumps(spec.headers),
            requests=[
                (request.method, url, spec.headers_of(request), base64.b64encode(request.body).decode())
                for url, request in spec.sent
            ],
            order=list(spec.order or [0]),
            pause=astuple(spec.load.pause) if spec.load.pause else None,
            time_s=spec.time_s,
            keep_alive=spec.load.keep_alive,
            has_script=bool(spec.load.script),
            folder=json.dumps(spec.folder),
            expected=spec.expected,
            wrong=WRONG,
            longer_s=MARGIN_S,
        )
        return {_FILE: text, **({_SCRIPT: spec.load.script} if spec.load.script else {})}

    def command(self, program: str, home: Path, spec: LoadSpec) -> list[str]:
        """Return the command. All users start at once. The locustfile ends the run, because -t includes the startup."""
        options = [
            "--headless",
            "-u",
            str(spec.users),
            "-r",
            str(spec.users),
            "--only-summary",
            "-f",
            str(home / _FILE),
        ]
        options += ["-t", f"{whole_seconds(spec.time_s) + MARGIN_S}s"]
        if spec.load.threads > 1:  # by default, the master listens on all interfaces
            options += ["--processes", str(spec.load.threads), "--master-bind-host", "127.0.0.1"]
            options += ["--master-bind-port", str(spec.port), "--master-port", str(spec.port)] if spec.port else []
        return [program, *options, *spec.load.options]

    def errors(self, report: str) -> list[str]:
        lines = [line for line in report.splitlines() if line.startswith("{")]
        with contextlib.suppress(IndexError, msgspec.DecodeError):
            counts = msgspec.json.decode(lines[-1], type=LocustTotals).errors
            return [error for error, _ in sorted(counts, key=lambda pair: -pair[1])]
        return []

    def totals(self, output: ToolOutput, spec: LoadSpec) -> Totals | None:
        try:
            reported = msgspec.json.decode(output.files.get(_RESULT, ""), type=LocustTotals)
        except msgspec.DecodeError:
            return None
        failed, contents = reported.count(""), reported.count(WRONG)
        wrong = contents + reported.count("status ", "BadStatusCode")
        if failed > reported.requests:
            return None
        answered = reported.requests - failed + wrong
        # Limit percentiles to the maximum, because Locust rounds percentiles (to two digits) but not the maximum.
        # Locust counts the bytes of decoded bodies.
        is_decoded = any(one.accepted_encodings for _, one in spec.sent)
        times_s = [min(time_ms, reported.percentiles_ms[-1]) / 1000 for time_ms in reported.percentiles_ms]
        p50_s, p95_s, p99_s, max_s = times_s if answered else [None] * 4
        return Totals(
            right=reported.requests - failed,
            wrong_status=wrong,
            unanswered=failed - wrong,
            connect_errors=reported.count(*_NO_CONNECTION),
            took_s=reported.took_s,
            p50_s=p50_s,
            p95_s=p95_s,
            p99_s=p99_s,
            max_s=max_s,
            body_bytes=None if is_decoded else reported.body_bytes,
            wrong_contents=contents,
            requests=reported.requests_of_mix(),
        )
