"""Drive stressor, a Python program that runs one thread per user and reports totals without percentiles."""

import json
import re
from pathlib import Path
from textwrap import indent

from under_siege.load.tool import Driver, LoadSpec, ToolOutput, Totals

_FILE = "load.yaml"
# The file sets all options, because stressor silently ignores `-o sessions.count:2`. Values are JSON (valid YAML).
_SCENARIO = Path(__file__).with_name("stressor.yaml.template").read_text(encoding="utf-8")
# A script can replace this request and use `$(url)`, `$(headers)`, `$(folder)` and `$(expected)` (a regex for bodies).
_REQUEST = "- {{activity: HTTPRequest, method: {method}, url: $(url), monitor: true, headers: $(headers){data}}}"
# By default, requests follows redirects, even to other servers, and uses the proxies of the environment.
_INIT = """
session.browser.get_redirect_target = lambda response: None
session.browser.trust_env = False
"""
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_TIME = r"(?:(?P<m>\d{1,9}):)?(?P<s>\d{1,9}\.\d{1,9}) (?:sec|min)"  # `1.011 sec`, `2:05.40 min`
_RUN_TIME = re.compile(rf"^Run time {_TIME},", re.MULTILINE | re.ASCII)
_ACTIVITY = re.compile(
    rf"^(?P<name>  - [^\n]{{0,2000}})\n\s+n: (?P<count>[\d,]{{1,15}}), min: .{{1,40}}, avg: .{{1,40}}, max: {_TIME}"
    r"(?:, (?P<errors>\d{1,15}) errors)?\s*$",
    re.MULTILINE | re.ASCII,
)
# stressor reports only the last error of an activity, so all errors of an activity are assumed to be of the same kind.
_ERRORS = re.compile(r"'errors': (\d{1,15}), 'last_error': ['\"](\w{1,60})\(", re.ASCII)
_LAST_ERROR = re.compile(r"'last_error': ['\"](.{1,200})")
_LOST, _WRONG = ("ActivityError", "ActivityTimeoutError"), ("ActivityAssertionError", "ScriptActivityError")
_NO_CONNECTION = re.compile(r"NewConnectionError|Connection refused|Cannot assign requested address")


class Stressor(Driver):
    name = program = "stressor"
    requirement = "stressor~=0.6.0"
    version_pattern = r"(\d+\.\d+\S*)"
    reports_percentiles = False
    runs_scripts = returns_cookies = True
    fixed_threads = "one thread"  # only one thread runs at a time, because of the GIL
    least_s, start_s = 2.0, 1.0

    def refusal(self, spec: LoadSpec) -> str:
        if not spec.load.request.body.isascii() or b"$(" in spec.load.request.body:
            return "stressor can only send ASCII bodies without `$(`; use siege"
        return super().refusal(spec)

    def files(self, spec: LoadSpec) -> dict[str, str | bytes]:
        expected = re.escape(spec.expected.decode(errors="replace")) or r"[\s\S]*"
        context = {"url": spec.url, "headers": spec.headers, "folder": spec.folder, "expected": expected}
        data = f", data: {json.dumps(spec.load.request.body.decode())}" if spec.load.request.body else ""
        text = _SCENARIO.format(
            url=json.dumps(spec.url),
            users=spec.users,
            time_s=spec.time_s,
            context=json.dumps(context),
            init=json.dumps(_INIT),
            activities=indent(spec.load.script or _REQUEST.format(method=spec.load.request.method, data=data), "    "),
        )
        return {_FILE: text}

    def command(self, program: str, home: Path, spec: LoadSpec) -> list[str]:
        """Return the command. Without -q, stressor prints every error; with several -q, it prints no summary."""
        return [program, "run", str(home / _FILE), "-q", "--no-color", *spec.load.options]

    def errors(self, report: str) -> list[str]:
        errors = [error.partition(r"\n")[0].replace("\\", "") for error in _LAST_ERROR.findall(report)]
        return list(dict.fromkeys(errors))

    def totals(self, output: ToolOutput, spec: LoadSpec) -> Totals | None:  # noqa: ARG002
        report = _COLOUR.sub("", f"{output.stdout}\n{output.stderr}")
        run_time, activities = _RUN_TIME.search(report), list(_ACTIVITY.finditer(report))
        requests = [activity for activity in activities if "Request(" in activity["name"]]  # the others are checks
        if not requests or not run_time or not (took_s := _seconds(run_time)):
            return None
        count = sum(int(request["count"].replace(",", "") or 0) for request in requests)
        errors = min(count, sum(int(activity["errors"] or 0) for activity in activities))
        kinds = [(int(number), kind) for number, kind in _ERRORS.findall(output.stdout)]
        lost = min(errors, sum(number for number, kind in kinds if kind in _LOST))
        # If other errors occurred, too, such as a failed PUT, a wrong body may be their consequence.
        has_only_wrong_bodies = bool(kinds) and all(kind in _WRONG for _, kind in kinds)
        return Totals(
            right=count - errors,
            wrong_status=errors - lost,
            unanswered=lost,
            connect_errors=lost if _NO_CONNECTION.search(output.stdout) else 0,
            took_s=took_s,
            max_s=max(map(_seconds, requests)) if count > errors else None,
            wrong_contents=errors if has_only_wrong_bodies else 0,
        )


def _seconds(match: re.Match[str]) -> float:
    return 60 * int(match["m"] or 0) + float(match["s"])
