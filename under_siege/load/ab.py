"""Drive ab (ApacheBench), which has one thread and reports only totals."""

import math
import re
from pathlib import Path
from types import MappingProxyType

from under_siege.load.tool import Driver, LoadSpec, ToolOutput, Totals, whole_seconds
from under_siege.secrets import has_secret, is_secret

REQUESTS_PER_S = 500_000  # more than any server can answer; ab allocates about 40 bytes per request
TIMEOUT_S = 30  # timeout of a response, in addition to the duration of the burst
_PERCENTILES, _BODY = "percentiles.csv", "body"
_REFUSED, _TIMED_OUT = 111, 119  # exit statuses: error numbers of Linux and of the Apache Portable Runtime

_LABEL = re.compile(r"^([A-Z][A-Za-z0-9 -]{1,40}):[ \t]+(\d{1,15}(?:\.\d{1,9})?)(?: |$)", re.MULTILINE | re.ASCII)
_ERRORS = re.compile(r"(Connect|Receive|Length|Exceptions): (\d{1,15})", re.ASCII)
_SYSTEM_ERROR = re.compile(r"^(apr_\w+\(?\)?: .+?)\s*$", re.MULTILINE)
_PERCENTILE = re.compile(r"^(\d{1,3}),(\d{1,9}\.\d+)$", re.MULTILINE | re.ASCII)  # milliseconds


class Ab(Driver):
    name = program = "ab"
    packages = MappingProxyType(
        dict.fromkeys(("apt-get", "apk"), "apache2-utils") | {"dnf": "httpd-tools", "pacman": "apache"}
    )
    results = (_PERCENTILES,)
    version_options, version_pattern = ("-V",), r"ApacheBench, Version (\S+)"
    is_replayed = counts_requests = True
    fixed_threads = "one thread"

    def refusal(self, spec: LoadSpec) -> str:
        if spec.load.requests is not None and spec.load.requests < spec.users:
            return (
                f"ab can't divide {spec.load.requests} requests among {spec.users} users; "
                "send at least one request per user"
            )
        if secrets := [name for name, value in spec.load.request.headers if is_secret(name, value)]:
            return (
                f"ab gets headers as arguments, which every user of this machine can see: {', '.join(secrets)}; "
                "use siege, wrk or locust"
            )
        if has_secret(spec.url):
            return "ab gets the path as an argument, which every user of this machine can see; use siege, wrk or locust"
        return super().refusal(spec)

    def files(self, spec: LoadSpec) -> dict[str, str | bytes]:
        return {_BODY: spec.load.request.body} if spec.load.request.body else {}

    def command(self, program: str, home: Path, spec: LoadSpec) -> list[str]:
        """Return the command. `-l` accepts bodies of different lengths; `-r` continues after a broken connection."""
        seconds = whole_seconds(spec.time_s)
        length = ["-t", str(seconds), "-n", str(REQUESTS_PER_S * seconds)]  # -t first, because it sets -n to 50,000
        if spec.load.requests is not None:
            length = ["-n", str(spec.load.requests)]
        timeout = ["-s", str(math.ceil(spec.time_s) + TIMEOUT_S)]
        keep_alive = ["-k"] if spec.load.keep_alive else []
        request = spec.load.request
        body = ["-p", str(home / _BODY), "-T", request.content_type] if request.body else []
        method = [] if request.method == "GET" else ["-m", request.method]
        others = [(name, value) for name, value in request.headers if not body or name.lower() != "content-type"]
        headers = [word for name, value in others for word in ("-H", f"{name}: {value}")]
        options = ["-q", "-l", "-r", "-c", str(spec.users), *length, *timeout, *keep_alive, *body, *method, *headers]
        return [program, *options, "-e", str(home / _PERCENTILES), *spec.load.options, spec.url]

    def errors(self, report: str) -> list[str]:
        kinds = [kind.lower().removesuffix("s") for kind, count in _ERRORS.findall(report) if int(count)]
        kinds = [f"{kind} errors" for kind in kinds if kind != "length"]  # -l accepts any length
        return list(dict.fromkeys([*kinds, *_SYSTEM_ERROR.findall(report)]))

    def totals(self, output: ToolOutput, spec: LoadSpec) -> Totals | None:
        # In reverse, so that the first occurrence of a label counts.
        labels = {label: float(value) for label, value in reversed(_LABEL.findall(output.stdout))}
        if "Complete requests" not in labels or not labels.get("Time taken for tests"):
            if output.status == _REFUSED:
                return Totals(0, 0, unanswered=1, connect_errors=1)
            return Totals(0, 0, unanswered=spec.users) if output.status == _TIMED_OUT else None
        complete = int(labels["Complete requests"])
        errors = {kind: int(count) for kind, count in _ERRORS.findall(output.stdout)}
        connect_errors = errors.get("Connect", 0)
        # With -r, complete requests include requests whose response broke off, but not those that failed otherwise. A
        # reset connection is both an exception and a receive error.
        broken = min(complete, errors.get("Receive", 0))
        answered, unanswered = complete - broken, connect_errors + max(broken, errors.get("Exceptions", 0))
        wrong = min(int(labels.get("Non-2xx responses", 0)), answered)
        if labels.get("Total transferred") == 0:  # every connection was refused
            answered, unanswered, connect_errors = wrong, unanswered + answered, unanswered
        percentiles = _percentiles_s(output.files.get(_PERCENTILES, ""), complete) if answered > 0 else {}
        kept_alive, body_bytes = labels.get("Keep-Alive requests"), labels.get("HTML transferred")
        return Totals(
            right=answered - wrong,
            wrong_status=wrong,
            unanswered=unanswered,
            connect_errors=connect_errors,
            took_s=labels["Time taken for tests"],
            p50_s=percentiles.get(50),
            p95_s=percentiles.get(95),
            p99_s=percentiles.get(99),
            max_s=percentiles.get(100),
            kept_alive=None if kept_alive is None else int(kept_alive),
            body_bytes=None if body_bytes is None else int(body_bytes),
        )


def _percentiles_s(text: str, complete: int) -> dict[int, float]:
    """Return the response time in seconds for each percentage in the file that `-e` writes.

    If there are few requests, ab reads past the end of its measured times for high percentages (ab.c,
    `output_results`). These values are replaced by the longest time.
    """
    times_s = {int(percent): float(time_ms) / 1000 for percent, time_ms in _PERCENTILE.findall(text)}
    return {
        percent: times_s[100] if 100 in times_s and int(0.5 + complete * percent / 100) >= complete else time_s
        for percent, time_s in times_s.items()
    }
