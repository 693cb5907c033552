"""Drive wrk with a Lua script that reports totals."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

import msgspec

from under_siege.load.request import Request
from under_siege.load.tool import Driver, LoadSpec, ToolOutput, Totals, whole_seconds
from under_siege.record.requests import Count
from under_siege.secrets import has_secret

_FOLDER = Path(__file__).parent
_TOTALS_LUA = (_FOLDER / "wrk_totals.lua").read_text(encoding="utf-8")
_PATHS_LUA = (_FOLDER / "wrk_paths.lua").read_text(encoding="utf-8")
_MIX_LUA = (_FOLDER / "wrk_mix.lua").read_text(encoding="utf-8")
_PAUSE_LUA = (_FOLDER / "wrk_pause.lua").read_text(encoding="utf-8")
_SINGLE, _SEVERAL, _PATHS, _MIXED, _MIX = "report.lua", "several.lua", "paths.txt", "mixed.lua", "mix.lua"
_NO_CONNECTION = re.compile(r"^(unable to .+?)\s*$", re.MULTILINE)
_BODY, _EXPECTED, _REQUEST, _PAUSE, _PAUSING = "body", "expected.lua", "request.lua", "pause.lua", "pausing.lua"


CLOSING = 0.5  # read errors as a share of responses that do not announce the end of their connection


class WrkTotals(msgspec.Struct, frozen=True):
    """The line that wrk_totals.lua prints."""

    requests: Count
    duration_us: Count
    connect: Count
    read: Count
    write: Count
    status: Count
    p50_us: Count
    p95_us: Count
    p99_us: Count
    max_us: Count
    body_bytes: Count
    asked_bytes: Count
    wrong_bodies: Count
    unannounced: Count = 0  # responses without `Connection: close`


class Wrk(Driver):
    """The load tool wrk.

    After late responses, wrk adds synthetic samples to its latencies to correct for coordinated omission. Therefore,
    the rate multiplied by the latency can exceed the number of users.
    """

    name = program = "wrk"
    packages = MappingProxyType(dict.fromkeys(("apt-get", "apk", "pacman"), "wrk"))
    settings = MappingProxyType(
        {_SINGLE: _TOTALS_LUA, _SEVERAL: _TOTALS_LUA + _PATHS_LUA, _MIXED: _TOTALS_LUA + _MIX_LUA}
    )
    version_pattern = r"^wrk \D*([\d.]+)"
    supports_multiple_paths = is_replayed = sends_mixes = can_pause = True

    def refusal(self, spec: LoadSpec) -> str:
        if spec.users % spec.load.threads:
            return (
                f"wrk divides its users evenly among its threads: {spec.users} is not a multiple of "
                f"{spec.load.threads}; change either number"
            )
        if spec.load.pause and not spec.load.keep_alive:
            return "wrk opens each connection before the pause, not after it; set keep_alive = true, or use locust"
        return super().refusal(spec)

    def files(self, spec: LoadSpec) -> dict[str, str | bytes]:
        files: dict[str, str | bytes] = {_EXPECTED: f"return {_lua(spec.expected)}\n"}
        files[_REQUEST] = _request(spec.load.request, _path(spec.url) if has_secret(spec.url) else "")
        if spec.load.mix:
            files[_MIX] = _mix(spec)
        bodies = [one.body for _, one in spec.sent]
        files |= {f"{_BODY}{index}": body for index, body in enumerate(bodies) if body}
        if spec.load.pause:
            pause, connections = spec.load.pause, spec.users // spec.load.threads
            times_ms = f"{1000 * pause.shortest_s:.0f}, {1000 * pause.longest_s:.0f}"
            files[_PAUSE] = f"return {{{times_ms}, {str(pause.is_exponential).lower()}, {connections}}}\n"
            files[_PAUSING] = self.settings[self._script(spec)] + _PAUSE_LUA
        return files | ({_PATHS: "".join(f"{size} {path}\n" for path, size in spec.paths)} if spec.paths else {})

    def command(self, program: str, home: Path, spec: LoadSpec) -> list[str]:
        """Return the command. The timeout exceeds the run, because wrk excludes timed-out requests from latencies."""
        seconds = whole_seconds(spec.time_s)
        options = [f"-t{spec.load.threads}", f"-c{spec.users}", f"-d{seconds}s", "--timeout", f"{seconds + 1}s"]
        close = [] if spec.load.keep_alive else ["-H", "Connection: close"]
        lua = str(home / (_PAUSING if spec.load.pause else self._script(spec)))
        url = spec.url.removesuffix(_path(spec.url)) + "/" if has_secret(spec.url) else spec.url
        return [program, *options, *close, "-s", lua, *spec.load.options, url]

    @staticmethod
    def _script(spec: LoadSpec) -> str:
        if spec.paths:
            return _SEVERAL
        return _MIXED if spec.load.mix else _SINGLE

    def errors(self, report: str) -> list[str]:
        kinds = re.findall(r'"(connect|read|write)": [1-9]', report)
        return list(dict.fromkeys([*(f"{kind} errors" for kind in kinds), *_NO_CONNECTION.findall(report)]))

    def totals(self, output: ToolOutput, spec: LoadSpec) -> Totals | None:
        """Return the totals. A response with a status below 400 counts as right, unless its body is wrong."""
        lines = [line for line in output.stdout.splitlines() if line.startswith("{")]
        try:
            reported = msgspec.json.decode(lines[-1], type=WrkTotals)
        except (IndexError, msgspec.DecodeError):
            could_connect = "unable to connect" not in output.stderr
            return None if could_connect else Totals(0, 0, unanswered=1, connect_errors=1)
        if not reported.duration_us:
            return None
        answered = reported.requests
        contents = min(answered, reported.wrong_bodies)
        wrong = min(answered, reported.status + contents)
        return Totals(
            right=answered - wrong,
            wrong_status=wrong,
            unanswered=reported.connect + _lost(reported, spec) + reported.write,
            connect_errors=reported.connect,
            took_s=reported.duration_us / 1e6,
            p50_s=reported.p50_us / 1e6 if answered else None,
            p95_s=reported.p95_us / 1e6 if answered else None,
            p99_s=reported.p99_us / 1e6 if answered else None,
            max_s=reported.max_us / 1e6 if answered else None,
            body_bytes=reported.body_bytes,
            wrong_contents=contents,
            odd_bytes=_odd_bytes(reported, spec),
        )


def _lost(reported: WrkTotals, spec: LoadSpec) -> int:
    """Return how many requests were lost, without the errors of a server that closes connections as it was asked to.

    If such a server does not announce it with `Connection: close`, wrk sends its next request on the closed connection
    and counts a read error, so there is an error for nearly every response.
    """
    is_closing = not spec.load.keep_alive and reported.read >= CLOSING * reported.unannounced
    return max(0, reported.read - reported.unannounced) if is_closing else reported.read


def _path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _request(request: Request, path: str) -> str:
    """Return Lua code that sets the request. Secrets in it are not arguments, because every user can read those.

    Args:
        path: the path, or an empty string if it is an argument.
    """
    lines = [f'wrk.method, wrk.body = "{request.method}", {_body(request, 0)}']
    lines += [f"wrk.path = {_lua_string(path.encode())}"] if path else []
    return "\n".join([*lines, *(f"wrk.headers{header}" for header in _headers(request)), ""])


def _mix(spec: LoadSpec) -> str:
    """Return Lua code that returns the requests of the mix, their order, and the number of threads."""
    requests = []
    for index, one in enumerate(spec.load.mix):
        request, headers = one.request, ", ".join(_headers(one.request))
        words = f"{_lua(request.method.encode())}, {_lua(one.path.encode())}, {{{headers}}}, {_body(request, index)}"
        requests.append(f"{{{words}}}")
    order = ", ".join(str(index + 1) for index in spec.order)
    return f"return {{{', '.join(requests)}}}, {{{order}}}, {spec.load.threads}\n"


def _body(request: Request, index: int) -> str:
    """Return a Lua expression for the body, which is in a file, because source code should not contain megabytes."""
    return f'io.open(os.getenv("HOME") .. "/{_BODY}{index}", "rb"):read("*a")' if request.body else "nil"


def _headers(request: Request) -> Iterator[str]:
    """Yield the assignment of each header to a field of a Lua table."""
    for name, value in request.headers:
        yield f"[{_lua_string(name.encode())}] = {_lua_string(value.encode())}"


def _lua(text: bytes) -> str:
    """Return the text as a Lua string, or `nil` if it is empty."""
    return _lua_string(text) if text else "nil"


def _lua_string(text: bytes) -> str:
    return f'"{"".join(f"{chr(92)}{byte:03d}" for byte in text)}"'


def _odd_bytes(reported: WrkTotals, spec: LoadSpec) -> int | None:
    """Return by how much received and requested bytes differ beyond the bytes in flight, or None if unknown."""
    if not spec.paths or reported.connect or reported.read or reported.write or reported.status:
        return None
    # Each user waits for one response, and each thread has prepared one more request.
    in_flight = (spec.users + spec.load.threads) * max(size for _, size in spec.paths)
    return max(0, abs(reported.asked_bytes - reported.body_bytes) - in_flight)
