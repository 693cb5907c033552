"""Locust: the file that it is given, and what that writes down at the end."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from under_siege.load_tools.tool import Driver, LoadSpec, ToolOutput, Totals, only_for_a_time, whole_seconds

_FILE, _RESULT, _SCRIPT = "locustfile.py", "totals.json", "script.py"
# Its CSV files are written once a second and not at the end, so that they lack the last second.
_LOCUSTFILE = '''\
"""One URL again and again, without a pause."""

import json
import time
from pathlib import Path

import gevent
from locust import FastHttpUser, events, task
from locust.runners import MasterRunner, WorkerRunner

URL, HEADERS, TIME_S = {url}, {headers}, {time_s}
HAS_SCRIPT, FOLDER, EXPECTED = {has_script}, {folder}, {expected}
moments, took_s_of_workers = {{}}, {{}}  # of workers: seconds, and whether they have ended
if HAS_SCRIPT:
    from script import visit


class User(FastHttpUser):
    host = URL
    connection_timeout = network_timeout = 3600.0
    url, headers, folder, expected = URL, HEADERS, FOLDER, EXPECTED

    @task
    def ask(self):
        if HAS_SCRIPT:
            visit(self)
            return
        get = self.client.get(URL, headers=HEADERS, name="load", allow_redirects=False, catch_response=True)
        with get as answer:
            if answer.status_code and not 200 <= answer.status_code < 300:
                answer.failure(f"status {{answer.status_code}}")
            elif EXPECTED and answer.status_code and answer.content != EXPECTED:
                answer.failure("{wrong}")


@events.test_start.add_listener
def begin(environment, **_):
    moments["began"] = time.monotonic()
    if not isinstance(environment.runner, WorkerRunner):
        gevent.spawn(end_in_time, environment.runner)


def end_in_time(runner):
    while runner.user_count < runner.target_user_count:  # workers take a while to start on a busy machine
        gevent.sleep(0.01)
    gevent.sleep(TIME_S)
    if isinstance(runner, MasterRunner):
        collect_last_reports(runner)
    runner.quit()


def collect_last_reports(runner):
    """Let the workers report and only then quit: a message that a process sends right before it ends can be lost."""
    runner.stop(send_stop_to_client=False)
    workers = [client.id for client in runner.clients.all]
    runner.send_message("finish")
    moments["incomplete"] = True
    with gevent.Timeout({longer_s}, False):
        while not all(took_s_of_workers.get(worker, (0, False))[1] for worker in workers):
            gevent.sleep(0.01)
        del moments["incomplete"]


def finish(environment, **_):
    environment.runner.stop()
    environment.runner._send_stats()


@events.test_stopping.add_listener
def end(**_):
    moments.setdefault("ended", time.monotonic())


def took_s():
    return moments.get("ended", time.monotonic()) - moments["began"]


@events.report_to_master.add_listener
def report(data, **_):
    data["took_s"] = (took_s() if "began" in moments else 0.0, "ended" in moments)


@events.worker_report.add_listener
def note(client_id, data, **_):
    took_s_of_workers[client_id] = data["took_s"]


@events.quit.add_listener
def tell(**_):
    total = RUNNER[0].stats.total
    percentiles = [total.get_response_time_percentile(part) for part in (0.5, 0.95, 0.99)]
    told = {{
        "requests": total.num_requests,
        "took_s": max((one for one, _ in took_s_of_workers.values()), default=took_s()),
        "percentiles_ms": [*percentiles, total.max_response_time],
        "body_bytes": None if HAS_SCRIPT else total.total_content_length,
        "errors": [[str(one.parse_error(one.error)), one.occurrences] for one in RUNNER[0].stats.errors.values()],
    }}
    if not isinstance(RUNNER[0], WorkerRunner) and "incomplete" not in moments:
        Path(__file__).with_name("totals.json").write_text(json.dumps(told))


RUNNER = []


@events.init.add_listener
def remember(runner, **_):
    RUNNER.append(runner)
    if isinstance(runner, WorkerRunner):
        runner.register_message("finish", finish)
'''
_NO_CONNECTION = ("ConnectionRefused", "Errno 111", "Errno 99", "Cannot assign requested address", "(111,", "(99,")
LONGER_S = 30
WRONG = "wrong contents"  # what we and scripts call an answer that is none
_MOST = 2**53


class Locust(Driver):
    """Locust.

    It is Python, with a process for each thread that is asked for. Its percentiles have two digits.
    """

    name = program = "locust"
    requirement = "locust~=2.47"
    version_pattern = r"\Alocust (\S+)"
    least_s, start_s = 3.0, 1.5
    results = (_RESULT,)

    def refusal(self, order: LoadSpec) -> str:
        """It can't count."""
        return only_for_a_time(self.name, order)

    def files(self, order: LoadSpec) -> Mapping[str, str]:
        """All that a user of it does."""
        headers = {"Accept-Encoding": "identity"} | ({} if order.keep_alive else {"Connection": "close"})
        words = {"url": json.dumps(order.url), "headers": json.dumps(headers), "time_s": order.time_s}
        script = {"has_script": bool(order.script), "folder": json.dumps(order.folder)}
        text = _LOCUSTFILE.format(**words, **script, expected=order.expected, wrong=WRONG, longer_s=LONGER_S)
        return {_FILE: text} | ({_SCRIPT: order.script} if order.script else {})

    def command(self, program: str, home: Path, order: LoadSpec) -> list[str]:
        """All users begin at once. Our file ends it, because -t counts from before it has started."""
        words = [program, "--headless", "-u", str(order.users), "-r", str(order.users)]
        words += ["-t", f"{whole_seconds(order.time_s) + LONGER_S}s", "--only-summary", "-f", str(home / _FILE)]
        return [*words, *_processes(order), *order.options]

    def totals(self, output: ToolOutput, order: LoadSpec) -> Totals | None:  # noqa: ARG002
        """Right are those of 2xx."""
        try:
            return _totals(json.loads(output.files.get(_RESULT, "")))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return None


def _processes(order: LoadSpec) -> list[str]:
    """A master and so many workers; unless it is told where, the master listens at every address of the machine."""
    if order.threads == 1:
        return []
    here = ["--master-bind-host", "127.0.0.1", "--master-bind-port", str(order.port), "--master-port", str(order.port)]
    return ["--processes", str(order.threads), *(here if order.port else here[:2])]


def _totals(told: Any) -> Totals | None:
    requests, took_s = _count(told["requests"]), float(told["took_s"])
    errors = [(str(error), _count(count)) for error, count in told["errors"]]
    contents = sum(count for error, count in errors if WRONG in error)
    wrong = contents + sum(count for error, count in errors if "status " in error or "BadStatusCode" in error)
    unconnected = sum(count for error, count in errors if any(words in error for words in _NO_CONNECTION))
    failed = sum(count for _, count in errors)
    if not 0 < took_s < _MOST or failed > requests:
        return None
    answered = requests - failed + wrong
    p50_s, p95_s, p99_s, max_s = (_seconds(value_ms) if answered else None for value_ms in told["percentiles_ms"])
    if max_s is not None:  # which Locust tells as it is, and the others rounded to two digits
        p50_s, p95_s, p99_s = (None if one is None else min(one, max_s) for one in (p50_s, p95_s, p99_s))
    return Totals(
        right=requests - failed,
        wrong_status=wrong,
        unanswered=failed - wrong,
        connect_errors=unconnected,
        took_s=took_s,
        p50_s=p50_s,
        p95_s=p95_s,
        p99_s=p99_s,
        max_s=max_s,
        body_bytes=None if told["body_bytes"] is None else _count(told["body_bytes"]),
        wrong_contents=contents,
    )


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _MOST:
        raise ValueError("not a count")
    return value


def _seconds(value_ms: Any) -> float:
    if not 0 <= (value := float(value_ms)) < _MOST:
        raise ValueError("not a time")
    return value / 1000
