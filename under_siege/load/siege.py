"""Drive siege, which has a thread for each user and reports every response."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from under_siege.load.request import ACCEPT_ENCODING, Request
from under_siege.load.tool import Driver, LoadSpec
from under_siege.secrets import has_secret, is_secret

Headers = tuple[tuple[str, str], ...]
# siege gets its own settings and home directory, because the user's siege.conf could override any default.
_SETTINGS = Path(__file__).with_name("siegerc.template").read_text(encoding="utf-8")
_BODY, _URLS = "body", "urls.txt"
MAX_HEADER_BYTES = 2000  # siege has a buffer of 2,048 bytes
MAX_SECRET_BYTES = 500  # siege up to 4.1.5 reads at most 512 bytes of headers from its settings
_DELAY = re.compile(r"-d.*|--del(a|ay)?(=.*)?")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")  # siege colours errors even if its output is a pipe
_ERROR = re.compile(r"^\[(?:warning|error|fatal|alert)\] (.+?)\s*$", re.MULTILINE)
_PLACE = re.compile(r" \w+\.c:\d+|(?<=socket:) -?\d+(?= )")  # the line in siege's source, or the id of a thread
_MARGIN_S = 90  # added to siege's own time limit, so that the bench stops siege first


class Siege(Driver):
    name = program = "siege"
    drops_open_requests = True
    packages = MappingProxyType(dict.fromkeys(("apt-get", "dnf", "apk", "pacman"), "siege"))
    # Without a siege.conf in its home directory, siege creates one and prints two lines about it on stdout.
    settings = MappingProxyType({".siege/siege.conf": _SETTINGS.format(encoding="identity")})
    version_pattern = r"SIEGE (\S+)"
    # `   4,HTTP/1.1,200,  0.28,      5,/,0,2026-11-20 04:48:55` (siege 4.0.7 with csv and display-id; the format is the
    # same from 4.0.2 to 4.1.7, but some versions colour it even with `color = off`)
    response_line = re.compile(
        r"""
        (?:\x1b\[[\d;]*m)*
        \s*(?P<user>\d{1,6}), HTTP/[\d.]+, (?P<status>\d{3}), \s*(?P<took_s>\d{1,6}(?:\.\d+)?), \s*(?P<size>\d{1,15}),
        (?P<path>.*), \d+, [-\d]+[ ][:\d]+
        (?:\x1b\[[\d;]*m)*
        """,
        re.VERBOSE | re.ASCII,
    )
    streams_responses = is_replayed = counts_requests = sends_mixes = True
    fixed_threads = "a thread for each user"
    # A connection needs a file descriptor below FD_SETSIZE (1,024), or it fails with `unable to connect` (sock.c).
    most_users = 1000
    returns_cookies = True
    step_s = 0.01
    least_s = 0.0
    start_s = 0.0

    def refusal(self, spec: LoadSpec) -> str:
        if spec.load.keep_alive:
            return (
                "siege counts a request as failed if the server has closed the idle connection, as servers do after "
                "some requests; use client, wrk or locust, or set keep_alive = false"
            )
        if spec.load.requests is not None and (spec.load.requests < spec.users or spec.load.requests % spec.users):
            return (
                f"siege makes each user send the same number of requests: {spec.load.requests} can't be divided among "
                f"{spec.users} users; use a multiple of {spec.users}"
            )
        if any(map(_DELAY.fullmatch, spec.load.options)):
            return (
                "the bench runs siege in benchmark mode, which ignores --delay; remove it from load.options, and set "
                'load.pause = "1s"'
            )
        requests = [request for _, request in spec.sent]
        types = {request.content_type for request in requests} - {""}
        if len(types) > 1 or len({_without_type(request.headers) for request in requests}) > 1:
            return "siege sends the same headers with each request; use wrk or locust"
        if any("$" in one.path for one in spec.load.mix):
            return "siege can't send paths with $ in a mix of requests; use wrk or locust"
        if has_secret(spec.url) and "$" in spec.url:
            return "siege can't send a path with a secret and $; use wrk or locust"
        size = sum(len(f"{name}: {value}\r\n".encode()) for name, value in _headers(spec))
        if size > MAX_HEADER_BYTES:
            return f"siege can't send more than {MAX_HEADER_BYTES:,} bytes of headers, but these have {size:,}; use wrk"
        secrets = _in_settings(spec)
        if any(is_secret("", kind) for kind in types):
            return "siege gets the content type as an argument, which every user of this machine can see; use wrk"
        if any(re.search(r"[$#]", value) for _, value in secrets):
            names = ", ".join(name for name, _ in secrets)
            return f"siege can't read secrets that contain $ or # from its settings: {names}; use wrk or locust"
        size = sum(len(f"{name}: {value}\r\n") for name, value in secrets)
        if size > MAX_SECRET_BYTES:
            return f"siege can't read {size:,} bytes of secret headers, more than {MAX_SECRET_BYTES}; use wrk or locust"
        if any(request.body != request.body.strip() or b"\0" in request.body for request in requests):
            return "siege can't send a body that contains NUL or begins or ends with white space; use wrk"
        return super().refusal(spec)

    def files(self, spec: LoadSpec) -> dict[str, str | bytes]:
        """Return the settings, the bodies, and an empty file of cookies, so that none is left of another server."""
        encoding = spec.sent[0][1].accepted_encodings or "identity"
        settings = _SETTINGS.format(encoding=encoding)
        settings += "".join(_setting(name, value) for name, value in _in_settings(spec))
        files: dict[str, str | bytes] = {"siegerc": settings, ".siege/cookies.txt": ""}
        if not spec.load.mix:
            line = f"{_with_body(spec.url, spec.load.request, f'$HOME/{_BODY}')}\n"
            urls = {_URLS: line} if has_secret(spec.url) else {}
            return {**files, **urls, _BODY: spec.load.request.body}
        lines = [
            _with_body(url, request, f"$HOME/{_BODY}{index}")  # HOME is the tool's home
            for index, (url, request) in enumerate(spec.sent)
        ]
        bodies = {f"{_BODY}{index}": request.body for index, (_, request) in enumerate(spec.sent)}
        return {**files, _URLS: "".join(f"{lines[index]}\n" for index in spec.order), **bodies}

    def command(self, program: str, home: Path, spec: LoadSpec) -> list[str]:
        limit = f"-t{math.ceil(spec.time_s) + _MARGIN_S}S"
        if spec.load.requests is not None:
            limit = f"-r{spec.load.requests // spec.users}"
        shown = [header for header in _headers(spec) if header not in _in_settings(spec)]
        headers = [word for name, value in shown for word in _header(name, value)]
        is_in_file = spec.load.mix or has_secret(spec.url)  # every user of the machine can read the arguments
        sent = f"--file={home / _URLS}" if is_in_file else _with_body(spec.url, spec.load.request, str(home / _BODY))
        return [program, f"--rc={home / 'siegerc'}", f"-c{spec.users}", limit, *headers, *spec.load.options, sent]

    def errors(self, report: str) -> list[str]:
        counts = Counter(_PLACE.sub("", error) for error in _ERROR.findall(_COLOUR.sub("", report)))
        return [error for error, _ in counts.most_common()]

    def cpus(self, spec: LoadSpec) -> int:
        return spec.users

    def failures(self, report: str, statuses: Sequence[int]) -> int:
        match = re.search(r"Failed transactions:\s*(\d{1,15})\b", report, re.ASCII)
        server_errors = sum(status >= 500 for status in statuses)  # siege counts server errors as failures, too
        return max(0, int(match[1]) - server_errors) if match else 0


def _with_body(url: str, request: Request, body: str) -> str:
    return url if request.method == "GET" else f"{url} {request.method} <{body}"


def _without_type(headers: Headers) -> Headers:
    return tuple((name, value) for name, value in headers if name.lower() != "content-type")


def _headers(spec: LoadSpec) -> Headers:
    requests = [request for _, request in spec.sent]
    headers = dict.fromkeys(header for request in requests for header in request.headers)
    return tuple(header for header in headers if header[0].lower() != ACCEPT_ENCODING)  # it is among the settings


def _in_settings(spec: LoadSpec) -> Headers:
    """Return the headers to write to siege's settings, because every user of the machine can read its arguments."""
    return tuple(header for header in _without_type(_headers(spec)) if is_secret(*header))


def _setting(name: str, value: str) -> str:
    return f"user-agent = {value}\n" if name.lower() == "user-agent" else f"header = {name}: {value}\n"


def _header(name: str, value: str) -> list[str]:
    """Return the options for a header. Two headers need their own options, or siege would add its own values."""
    option = {"content-type": "-T", "user-agent": "-A"}.get(name.lower())
    return [option, value] if option else ["-H", f"{name}: {value}"]
