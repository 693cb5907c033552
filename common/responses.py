"""The headers of an answer: where the task ran, how long it waited, and how long it took."""

import sys
import time
from collections.abc import Callable
from http import HTTPStatus

from common.errors import one_line
from common.options import Options
from common.task import TaskError, TaskRun
from common.task.stopwatch import Stretch

_reasons: list[Callable[[], str]] = []
_until_restart: list[str] = []


def unready_while(reason: Callable[[], str]) -> None:
    """Add a check that returns one line while the server can't work, and an empty string while it can."""
    _reasons.append(reason)


def unready_until_restart(reason: str) -> None:
    """Report this line from now on: only a restart helps."""
    _until_restart[:] = [reason]


def why_not_ready() -> str:
    """Return the first reason why this server can't work now; empty if there is none."""
    return "".join(_until_restart) or next((text for reason in _reasons if (text := reason())), "")


PLAIN_TEXT = "text/plain; charset=utf-8"
NO_SUCH_PAGE = "404 Not Found: there are /, /ping and /ready"
WRONG_METHOD = "405 Method Not Allowed: only"
ONLY_GET = "GET"
RETRY_LATER = {"Retry-After": "1"}  # seconds; a longer pause would let a full queue run empty


class RefusedError(Exception):
    """The server can't do this now: a 503, whose body is the message."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"503 Service Unavailable: {reason}")


def task_headers(run: TaskRun, received_s: float) -> dict[str, str]:
    """`Server-Timing` (W3C, milliseconds) and `X-Worker` for a task whose request came at `received_s`.

    And for `bench.py trace`: `X-Ran` has when the task began (`time.monotonic`, in seconds) and then, in milliseconds,
    each stretch in which it ran: from/to/how much it computed, counted from its beginning.
    """
    queue_ms = max(0.0, run.started_s - received_s) * 1000
    task_ms = (run.finished_s - run.started_s) * 1000
    return {
        "Server-Timing": f"queue;dur={queue_ms:.3f}, task;dur={task_ms:.3f}",
        "X-Worker": run.worker.encode("ascii", "replace").decode(),
        "X-Ran": " ".join([f"{run.started_s:.6f}", *(_in_ms(stretch, run.started_s) for stretch in run.stretches)]),
    }


def _in_ms(stretch: Stretch, zero_s: float) -> str:
    from_s, to_s, cpu_s = stretch
    return f"{(from_s - zero_s) * 1000:.2f}/{(to_s - zero_s) * 1000:.2f}/{cpu_s * 1000:.2f}"


def ping_headers(options: Options) -> dict[str, str]:
    """What this server is: how many tasks it runs at the same time, and whether it has a GIL.

    `X-Workers` is there so that a client can warm up them all. `X-GIL` is `on` or `off`, from Python 3.13 on, where
    that can change while it runs: importing a package that needs the GIL switches it on.
    """
    gil = {"X-GIL": "on" if sys._is_gil_enabled() else "off"} if hasattr(sys, "_is_gil_enabled") else {}
    return {"X-Workers": str(options.workers), **gil}


def error_text(error: BaseException) -> str:
    """One line for the body of a 500."""
    return str(error) if isinstance(error, TaskError) else one_line(error)


def status_text(status: int, allowed: str = ONLY_GET) -> str:
    """One line for the body of any other status that is not 200."""
    known = {404: NO_SUCH_PAGE, 405: f"{WRONG_METHOD} {allowed}"}
    return known.get(status) or f"{status} {HTTPStatus(status).phrase}"


def status_headers(status: int, allowed: str = ONLY_GET) -> dict[str, str]:
    """What has to stand beside it: which methods there are (RFC 9110, 15.5.6)."""
    return {"Allow": allowed} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}


def now_s() -> float:
    """The clock of `TaskRun`."""
    return time.monotonic()
