"""Create response headers (worker, queueing time and duration of the task) and error bodies."""

import sys
import time
from http import HTTPStatus

from common.errors import one_line
from common.options import Options
from common.task import ComputeSpan, TaskError, TaskRun

PLAIN_TEXT = "text/plain; charset=utf-8"
ONLY_GET = "GET"
RETRY_LATER = {"Retry-After": "1"}  # seconds; with a longer delay, the queue might run empty


class RefusedError(Exception):
    """Raised to refuse a request with a 503, whose body is the message."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"503 Service Unavailable: {reason}")


def task_headers(run: TaskRun, received_s: float) -> dict[str, str]:
    """Return `Server-Timing` (W3C, milliseconds), `X-Worker` and `X-Ran` for a request received at `received_s`.

    `X-Ran`, which `bench.py trace` reads, consists of the start of the task (`time.monotonic`, in seconds) and the
    start/end/CPU time of each compute span (in milliseconds). The start and end times of spans are relative to the
    start of the task.
    """
    queue_ms = max(0.0, run.started_s - received_s) * 1000
    task_ms = (run.finished_s - run.started_s) * 1000
    return {
        "Server-Timing": f"queue;dur={queue_ms:.3f}, task;dur={task_ms:.3f}",
        "X-Worker": run.worker.encode("ascii", "replace").decode(),
        "X-Ran": " ".join([f"{run.started_s:.6f}", *(_in_ms(span, run.started_s) for span in run.spans)]),
    }


def _in_ms(span: ComputeSpan, zero_s: float) -> str:
    from_s, to_s, cpu_s = span
    return f"{(from_s - zero_s) * 1000:.2f}/{(to_s - zero_s) * 1000:.2f}/{cpu_s * 1000:.2f}"


def ping_headers(options: Options) -> dict[str, str]:
    """Return `X-Workers`, which clients need to warm up all workers, and `X-GIL`, which is `on` or `off`.

    `X-GIL` requires Python 3.13. Its value can change while the server runs, because importing a package that needs the
    GIL enables it.
    """
    gil = {"X-GIL": "on" if sys._is_gil_enabled() else "off"} if hasattr(sys, "_is_gil_enabled") else {}
    return {"X-Workers": str(options.workers), **gil}


def of_error(error: BaseException) -> tuple[str, int, dict[str, str]]:
    """Return the body, status and headers of the response to an error: a 503 if the request was refused, else a 500."""
    if isinstance(error, RefusedError):
        return str(error), 503, RETRY_LATER
    return error_text(error), 500, {}


def of_status(status: int, allowed: str = ONLY_GET) -> tuple[str, int, dict[str, str]]:
    """Return the body, status and headers of an error response; a 405 needs `Allow` (RFC 9110, 15.5.6)."""
    texts = {404: "404 Not Found: expected /, /ping or /ready", 405: f"405 Method Not Allowed: use {allowed}"}
    headers = {"Allow": allowed} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}
    return texts.get(status) or f"{status} {HTTPStatus(status).phrase}", status, headers


def error_text(error: BaseException) -> str:
    """Return the body of a 500 response."""
    return str(error) if isinstance(error, TaskError) else one_line(error)


def now_s() -> float:
    """Return the current time on the clock that `TaskRun` uses."""
    return time.monotonic()
