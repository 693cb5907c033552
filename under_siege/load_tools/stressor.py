"""stressor: the file that it is given, and what its summary means."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent

from under_siege.load_tools.tool import Driver, LoadSpec, ToolOutput, Totals, only_for_a_time, only_one_thread

_FILE = "load.yaml"
# The whole of it, because `-o sessions.count:2` is ignored without a word. Values are JSON, which is YAML, too.
_SCENARIO = """\
file_version: stressor#0
config:
  name: load
  base_url: {url}
  request_timeout: 3600
context: {context}
sessions:
  users: [{{name: user, password: unused}}]
  count: {users}
  basic_auth: false
scenario:
  - sequence: main
    duration: {time_s}
sequences:
  main:
{activities}
"""
# In place of which a script may stand; as `$(url)`, `$(headers)` and `$(folder)` it finds what the load is told, and as
# `$(expected)` a pattern of the right answer.
_ASK = "- {activity: GetRequest, url: $(url), monitor: true, headers: $(headers)}"
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_LENGTH = r"(?:(?P<{0}m>\d{{1,9}}):)?(?P<{0}s>\d{{1,9}}\.\d{{1,9}}) (?:sec|min)"  # `1.011 sec`, `2:05.40 min`
_RUN_TIME = re.compile(rf"^Run time {_LENGTH.format('')},", re.MULTILINE | re.ASCII)
_ACTIVITY = re.compile(
    r"^(?P<name>  - [^\n]{0,2000})\n\s+n: (?P<count>[\d,]{1,15}), min: .{1,40}, avg: .{1,40}, "
    rf"max: {_LENGTH.format('')}"
    r"(?:, (?P<errors>\d{1,15}) errors)?\s*$",
    re.MULTILINE | re.ASCII,
)
# What it tells of the last error of an activity stands for all of them.
_ERRORS = re.compile(r"'errors': (\d{1,15}), 'last_error': ['\"](\w{1,60})\(", re.ASCII)
_LOST, _WRONG = ("ActivityError", "ActivityTimeoutError"), ("ActivityAssertionError", "ScriptActivityError")
_NO_CONNECTION = re.compile(r"NewConnectionError|Connection refused|Cannot assign requested address")


class Stressor(Driver):
    """Python with a thread for each user; its summary has no percentiles."""

    name = program = "stressor"
    requirement = "stressor~=0.6.0"
    version_pattern = r"(\d+\.\d+\S*)"
    tells_percentiles = False
    least_s, start_s = 2.0, 1.0

    def refusal(self, order: LoadSpec) -> str:
        """It can't count, and its threads take turns."""
        return only_for_a_time(self.name, order) or only_one_thread(self.name, order)

    def files(self, order: LoadSpec) -> Mapping[str, str]:
        """All that it is to do."""
        headers = {"Accept-Encoding": "identity"} | ({} if order.keep_alive else {"Connection": "close"})
        expected = re.escape(order.expected.decode(errors="replace")) or r"[\s\S]*"
        context = {"url": order.url, "headers": headers, "folder": order.folder, "expected": expected}
        text = _SCENARIO.format(
            url=json.dumps(order.url),
            users=order.users,
            time_s=order.time_s,
            context=json.dumps(context),
            activities=indent(order.script or _ASK, "    "),
        )
        return {_FILE: text}

    def command(self, program: str, home: Path, order: LoadSpec) -> list[str]:
        """Errors are written down one by one, and with more than one -q the summary is not."""
        return [program, "run", str(home / _FILE), "-q", "--no-color", *order.options]

    def totals(self, output: ToolOutput, order: LoadSpec) -> Totals | None:  # noqa: ARG002
        """`Executed` contains errors; of which kind they are it tells of the last one only."""
        report = _COLOUR.sub("", f"{output.stdout}\n{output.stderr}")
        run_time, activities = _RUN_TIME.search(report), list(_ACTIVITY.finditer(report))
        requests = [one for one in activities if "Request(" in one["name"]]  # the others are what a script looks at
        took_s = _seconds(run_time) if run_time else 0.0
        if not requests or not took_s:
            return None
        done = sum(_number(one["count"]) for one in requests)
        errors = min(done, sum(_number(one["errors"]) for one in activities))
        kinds = [(int(count), kind) for count, kind in _ERRORS.findall(output.stdout)]
        lost = min(errors, sum(count for count, kind in kinds if kind in _LOST))
        # After a PUT that went wrong nobody knows what is right to read.
        only_wrong = bool(kinds) and all(kind in _WRONG for _, kind in kinds)
        return Totals(
            right=done - errors,
            wrong_status=errors - lost,
            unanswered=lost,
            connect_errors=lost if _NO_CONNECTION.search(output.stdout) else 0,
            took_s=took_s,
            max_s=max(map(_seconds, requests)) if done > errors else None,
            wrong_contents=errors if only_wrong else 0,
        )


def _number(text: str | None) -> int:
    digits = (text or "").replace(",", "")
    return int(digits) if digits else 0


def _seconds(found: re.Match[str]) -> float:
    return 60 * int(found["m"] or 0) + float(found["s"])
