"""Start and stop a server: listen, announce its URL, report readiness, and finish in-flight requests after SIGTERM."""

import atexit
import contextlib
import os
import select
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from common.options import Options, quit_with
from common.process_tree import descendants
from common.server_contract import BACKLOG

ITERATIONS_TO_START = 5  # event-loop iterations between accepting a connection and handling its request
_UNACKED = 24  # offset in `struct tcp_info` (linux/tcp.h) of tcpi_unacked, the accept-queue length of a listener

GRACE_S = 5.0

_unready_reasons: list[Callable[[], str]] = []
_permanent_reasons: list[str] = []


def listening_socket(options: Options) -> socket.socket:
    """Return a socket that listens on the given host and port, or exit with a one-line error."""
    try:
        listener = socket.create_server((options.host, options.port), family=_family(options), backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        _quit(options, error)
    listener.setblocking(False)
    return listener


def check_port_is_free(options: Options) -> None:
    """Exit with a one-line error if the address is in use; call this before starting worker processes."""
    try:
        with socket.socket(_family(options)) as unused:
            unused.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            unused.bind((options.host, options.port))
    except (OSError, UnicodeError) as error:
        _quit(options, error)


def _family(options: Options) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in options.host else socket.AF_INET


def _quit(options: Options, error: OSError | UnicodeError) -> NoReturn:
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and error.errno:
        reason = os.strerror(error.errno)  # `str(error)` would repeat the address
    else:
        reason = getattr(error, "strerror", None) or str(error)
    quit_with(f"can't listen on {options.host} port {options.port}: {reason}; try another --host or --port")


def announce(options: Options, listener: socket.socket) -> None:
    """Print the server's name, task and URL on one line."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    port = listener.getsockname()[1]
    print(f"{options.name}: {options.task} on http://{host}:{port}/", flush=True)  # noqa: T201


def unready_while(reason: Callable[[], str]) -> None:
    """Add a readiness check, which returns a one-line reason while the server can't work, or else an empty string."""
    _unready_reasons.append(reason)


def unready_until_restart(reason: str) -> None:
    """Report the server as not ready, for this one-line reason, until it is restarted."""
    _permanent_reasons[:] = [reason]


def why_not_ready() -> str:
    """Return the first reason why this server can't work now, or an empty string if there is none."""
    return "".join(_permanent_reasons) or next((text for reason in _unready_reasons if (text := reason())), "")


def stop_new_connections(listener: socket.socket) -> None:
    """Refuse new connections, but keep those that wait in the kernel; closing the socket would reset them."""
    listener.listen(0)


def has_waiting_connection(listener: socket.socket) -> bool:
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return bool(poll.poll(0))


def waiting_in_kernel(listener: socket.socket) -> int:
    """Return the number of connections that wait to be accepted, or 0 on systems other than Linux."""
    if sys.platform != "linux":
        return 0
    info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _UNACKED + 4)
    return int(struct.unpack_from("I", info, _UNACKED)[0])


async def accept_waiting(listener: socket.socket) -> None:
    """Refuse new connections, accept those that wait in the kernel, and start handling their requests."""
    import asyncio  # a slow import that only servers with an event loop need

    stop_new_connections(listener)
    attempts = 10
    while attempts and has_waiting_connection(listener):
        await asyncio.sleep(0)
        attempts -= 1
    for _ in range(ITERATIONS_TO_START):
        await asyncio.sleep(0)


def on_stop_signal(options: Options, stop: Callable[[], object], unanswered: Callable[[], int]) -> None:
    """Call `stop` on SIGTERM or Ctrl-C; after `GRACE_S`, report unanswered requests and kill this process tree.

    SIGALRM enforces the time limit, because a thread might not run while a task computes on the main thread.
    """

    def start_shutdown(_signal: int, _frame: FrameType | None) -> None:
        if not signal.getitimer(signal.ITIMER_REAL)[0]:  # a second signal does not extend the grace period
            signal.setitimer(signal.ITIMER_REAL, GRACE_S)
        stop()

    def end_now(_signal: int, _frame: FrameType | None) -> None:
        sys.setswitchinterval(1e-6)  # otherwise, CPU-bound threads would delay this handler
        report_dropped(options, unanswered())
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # hides what other threads print when their child processes exit
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if util := sys.modules.get("multiprocessing.util"):  # os._exit skips multiprocessing's cleanup
            shutil.rmtree(util.get_temp_dir(), ignore_errors=True)
        os._exit(0)

    signal.signal(signal.SIGALRM, end_now)
    # While the interpreter shuts down, it runs no signal handlers, so the alarm would kill the process.
    atexit.register(signal.signal, signal.SIGALRM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, start_shutdown)
    signal.signal(signal.SIGTERM, start_shutdown)


def report_dropped(options: Options, count: int) -> None:
    """Print how many requests were dropped, if any. Signal handlers may call this, because it only calls `write`."""
    if count > 0:
        requests = "1 request" if count == 1 else f"{count} requests"
        os.write(2, f"{options.name}: dropped {requests} that did not finish within {GRACE_S:g} s\n".encode())
