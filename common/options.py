"""Parse the command-line options of a server, and report errors on one line."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from common.server_contract import LONGEST_QUEUE, MOST_WORKERS, default_port, remedy, unmet
from common.task import UnknownTaskError, resolve

QUEUE_PER_WORKER = 4
QUEUE_WITHOUT_WORKERS = 40  # all requests share one thread, so the last request in a longer queue would wait too long


@dataclass(frozen=True, slots=True)
class Options:
    """The command-line options of a server."""

    name: str
    host: str
    port: int
    task: str
    workers: int
    queue: int  # maximum number of requests that wait while all workers are busy
    shares_thread: bool = False  # whether tasks run on the thread that accepts connections


def server_options(workers: int | None = None, most_waiting: int = LONGEST_QUEUE) -> Options:
    """Return the options from the command line, or exit with a one-line error.

    Args:
        workers: default of --workers, or None if the strategy always has one worker.
        most_waiting: upper limit for the default of --queue.
    """
    script = Path(sys.argv[0])
    requires = getattr(sys.modules["__main__"], "REQUIRES", "")
    if lacking := unmet(requires):
        quit_with(f"{lacking}; {remedy(requires, 'run it with a newer Python')}")
    parser = _OneLineParser(prog=script.name, description=sys.modules["__main__"].__doc__)
    add, default = parser.add_argument, "default: %(default)s"
    add("--host", default="127.0.0.1", help=f"address to listen on; {default}")
    add("--port", type=_whole_number(0, 65535), default=default_port(script.stem), help=f"port to listen on; {default}")
    add("--task", type=_task, default="primes", help="a built-in task, module:function, or module:function('acme', 3)")
    workers_help = "ignored: one thread runs all tasks" if workers is None else f"number of workers; {default}"
    add("--workers", type=_whole_number(1, MOST_WORKERS), default=workers or 1, help=workers_help)
    at_most = f", at most {most_waiting}" if most_waiting < LONGEST_QUEUE else ""
    default = str(QUEUE_WITHOUT_WORKERS) if workers is None else f"{QUEUE_PER_WORKER} per worker{at_most}"
    add("--queue", type=_whole_number(0, LONGEST_QUEUE), help=f"maximum number of queued requests; default: {default}")
    given = parser.parse_args()
    if workers is None:
        given.workers = 1
    if given.queue is None:
        wanted = QUEUE_WITHOUT_WORKERS if workers is None else QUEUE_PER_WORKER * given.workers
        given.queue = min(wanted, most_waiting)
    return Options(
        script.stem, given.host, given.port, given.task, given.workers, given.queue, shares_thread=workers is None
    )


def quit_with(message: str) -> NoReturn:
    """Print one line on stderr and exit with code 2."""
    print(f"{Path(sys.argv[0]).stem}: {message}", file=sys.stderr)  # noqa: T201
    raise SystemExit(2)


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        quit_with(f"{message} (try --help)")


def _whole_number(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"expected a whole number from {low} to {high}, not {text!r}")
        return int(text)

    return parse


def _task(spec: str) -> str:
    try:
        resolve(spec)
    except UnknownTaskError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return spec
