"""wrk: how it is called, and what the line means that a script of ours makes it print."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from under_siege.load_tools.tool import (
    Driver,
    LoadSpec,
    ToolOutput,
    Totals,
    only_asks,
    only_for_a_time,
    whole_seconds,
)

_SCRIPT_NAME = "report.lua"
# Its own text rounds, in units that change, and leaves out what went wrong. To count the bytes costs it a microsecond,
# and to compare them nothing more: two strings that are equal are one in Lua.
_SCRIPT = """\
local threads = {}
setup = function(thread)
  threads[#threads + 1] = thread
end
body_bytes, asked_bytes, wrong_bodies = 0, 0, 0
local expected = dofile(os.getenv("HOME") .. "/expected.lua")
response = function(status, headers, body)
  body_bytes = body_bytes + #body
  if expected and status < 400 and body ~= expected then
    wrong_bodies = wrong_bodies + 1
  end
end
done = function(summary, latency, requests)
  local told = {
    requests = summary.requests, duration_us = summary.duration,
    connect = summary.errors.connect, read = summary.errors.read, write = summary.errors.write,
    status = summary.errors.status,
    p50_us = latency:percentile(50), p95_us = latency:percentile(95), p99_us = latency:percentile(99),
    max_us = latency.max, body_bytes = 0, asked_bytes = 0, wrong_bodies = 0
  }
  for _, thread in ipairs(threads) do
    told.body_bytes = told.body_bytes + thread:get("body_bytes")
    told.asked_bytes = told.asked_bytes + thread:get("asked_bytes")
    told.wrong_bodies = told.wrong_bodies + thread:get("wrong_bodies")
  end
  local parts = {}
  for name, value in pairs(told) do
    parts[#parts + 1] = string.format('"%s": %.0f', name, value)
  end
  io.write("\\n{" .. table.concat(parts, ", ") .. "}\\n")
end
"""
_SEVERAL, _PATHS, _EXPECTED = "several.lua", "paths.txt", "expected.lua"
# The same ones in the same order for every server.
_SCRIPT_FOR_SEVERAL = (
    _SCRIPT
    + f"""
local paths, sizes = {{}}, {{}}
init = function(args)
  for line in io.lines(os.getenv("HOME") .. "/{_PATHS}") do
    local size, path = line:match("^(%d+) (.*)$")
    paths[#paths + 1], sizes[#sizes + 1] = path, tonumber(size)
  end
  math.randomseed(1)
end
request = function()
  local place = math.random(#paths)
  asked_bytes = asked_bytes + sizes[place]
  return wrk.format(nil, paths[place])
end
"""
)
_FIGURES = (
    *("requests", "duration_us", "connect", "read", "write", "status", "body_bytes", "asked_bytes"),
    "wrong_bodies",
    *("p50_us", "p95_us", "p99_us", "max_us"),
)
_MOST = 2**53


class Wrk(Driver):
    """wrk.

    It adds invented samples to its latencies where answers were late (against coordinated omission), so that rate
    times latency can exceed the users.
    """

    name = program = "wrk"
    packages = MappingProxyType(dict.fromkeys(("apt-get", "apk", "pacman", "brew"), "wrk"))
    version_pattern = r"^wrk \D*([\d.]+)"
    settings = MappingProxyType({_SCRIPT_NAME: _SCRIPT, _SEVERAL: _SCRIPT_FOR_SEVERAL})
    supports_multiple_paths = is_imitated = True

    def refusal(self, order: LoadSpec) -> str:
        """It can't count, and would leave out users that its threads can't share evenly."""
        if order.users % order.threads:
            return (
                f"wrk shares its users evenly among its threads: {order.users} users can't be shared by "
                f"{order.threads} threads; take another number of either"
            )
        return only_asks(self.name, order) or only_for_a_time(self.name, order)

    def files(self, order: LoadSpec) -> Mapping[str, str]:
        """The right answer, if there is one, and the paths, if there are several."""
        expected = "".join(f"\\{byte:03d}" for byte in order.expected)
        files = {_EXPECTED: f'return "{expected}"\n' if expected else "return nil\n"}
        return files | ({_PATHS: "".join(f"{size} {path}\n" for path, size in order.paths)} if order.paths else {})

    def command(self, program: str, home: Path, order: LoadSpec) -> list[str]:
        """Its limit for an answer is never reached: a later one would be missing from the latencies."""
        seconds = whole_seconds(order.time_s)
        words = [program, f"-t{order.threads}", f"-c{order.users}", f"-d{seconds}s", "--timeout", f"{seconds + 1}s"]
        close = [] if order.keep_alive else ["-H", "Connection: close"]
        return [
            *words,
            *close,
            "-s",
            str(home / (_SEVERAL if order.paths else _SCRIPT_NAME)),
            *order.options,
            order.url,
        ]

    def totals(self, output: ToolOutput, order: LoadSpec) -> Totals | None:
        """An answer below 400 counts as right; one that never came is told nowhere."""
        lines = [line for line in output.stdout.splitlines() if line.startswith("{")]
        figures = _figures(lines[-1]) if lines else None
        if figures is None and "unable to connect" in output.stderr:  # before it starts
            return Totals(0, 0, unanswered=1, connect_errors=1)
        if figures is None or not figures["duration_us"]:
            return None
        answered = figures["requests"]
        contents = min(answered, figures["wrong_bodies"])
        wrong = min(answered, figures["status"] + contents)
        p50_s, p95_s, p99_s, max_s = (
            figures[name] / 1e6 if answered else None for name in ("p50_us", "p95_us", "p99_us", "max_us")
        )
        return Totals(
            right=answered - wrong,
            wrong_status=wrong,
            unanswered=figures["connect"] + figures["read"] + figures["write"],
            connect_errors=figures["connect"],
            took_s=figures["duration_us"] / 1e6,
            p50_s=p50_s,
            p95_s=p95_s,
            p99_s=p99_s,
            max_s=max_s,
            body_bytes=figures["body_bytes"],
            wrong_contents=contents,
            odd_bytes=_odd_bytes(figures, order),
        )


def _odd_bytes(figures: Mapping[str, int], order: LoadSpec) -> int | None:
    """How far what came is from what was asked for, beyond what may be on its way; None where something broke off."""
    if not order.paths or any(figures[name] for name in ("connect", "read", "write", "status")):
        return None
    # Each user waits for one, and each thread has made one up before it began.
    on_its_way = (order.users + order.threads) * max(size for _, size in order.paths)
    return max(0, abs(figures["asked_bytes"] - figures["body_bytes"]) - on_its_way)


def _figures(line: str) -> dict[str, int] | None:
    """The numbers of our line, if it has all of them."""
    try:
        told: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or not all(type(told.get(name)) is int for name in _FIGURES):
        return None
    return {name: told[name] for name in _FIGURES} if all(0 <= told[name] < _MOST for name in _FIGURES) else None
