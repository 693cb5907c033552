"""What all servers do alike: listen, say so, and describe each run of the task in response headers."""

import os
import socket
import sys

from common.options import Options, quit_with
from common.task import TaskRun

GRACE_S = 5  # how long a server may take to finish its requests after SIGTERM or Ctrl-C
PLAIN_TEXT = "text/plain; charset=utf-8"
# The options of an application that the command of its library starts, as in `uvicorn 11_fastapi:app`.
NO_OPTIONS = Options(name="", host="", port=0, task="primes", workers=1, queue=None)


def listening_socket(options: Options) -> socket.socket:
    """Return a socket that listens on the given host and port, or exit with a one-line error."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host, options.port), family=family)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None) or 0
        reason = os.strerror(number) if number > 0 else str(error)  # gaierror has negative numbers
        quit_with(f"can't listen on {options.host} port {options.port}: {reason}; try another --host or --port")
    listener.setblocking(False)
    return listener


def announce(options: Options, listener: socket.socket) -> None:
    """Print the server's name, task and URL on one line."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    print(f"{options.name}: {options.task} on http://{host}:{listener.getsockname()[1]}/", flush=True)  # noqa: T201


def task_headers(run: TaskRun, received_s: float) -> dict[str, str]:
    """Return `Server-Timing` (W3C, milliseconds), `X-Worker` and `X-Ran` for a request received at `received_s`.

    `X-Ran`, which `bench.py trace` reads, consists of the start of the task (`time.monotonic`, in seconds) and the
    start/end/CPU time of each compute span, in milliseconds since the start of the task.
    """
    queue_ms = max(0.0, run.started_s - received_s) * 1000
    task_ms = (run.finished_s - run.started_s) * 1000
    spans = (
        f"{(from_s - run.started_s) * 1000:.2f}/{(to_s - run.started_s) * 1000:.2f}/{cpu_s * 1000:.2f}"
        for from_s, to_s, cpu_s in run.spans
    )
    return {
        "Server-Timing": f"queue;dur={queue_ms:.3f}, task;dur={task_ms:.3f}",
        "X-Worker": run.worker,
        "X-Ran": " ".join([f"{run.started_s:.6f}", *spans]),
    }


def ping_headers(options: Options) -> dict[str, str]:
    """Return `X-Workers`, which clients need to warm up all workers, and from Python 3.13 on `X-GIL`: `on` or `off`."""
    gil = {"X-GIL": "on" if sys._is_gil_enabled() else "off"} if hasattr(sys, "_is_gil_enabled") else {}
    return {"X-Workers": str(options.workers), **gil}
