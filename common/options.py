"""The command-line options of every server, with errors in one line."""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from common.server_contract import LONGEST_QUEUE, MOST_WORKERS, default_port, remedy, unmet
from common.task import UnknownTaskError, resolve

QUEUE_PER_WORKER = 4
QUEUE_WITHOUT_WORKERS = 40  # all requests share one thread: with more, the last would wait too long on a slow CPU


@dataclass(frozen=True, slots=True)
class Options:
    """How a server was asked to run."""

    name: str
    host: str
    port: int
    task: str
    workers: int
    queue: int  # requests that may wait while all workers are busy; more are refused
    shares_thread: bool = False  # all that has begun shares one thread with whatever hears who comes


def server_options(workers: int | None = None, most_waiting: int = LONGEST_QUEUE) -> Options:
    """The options from the command line.

    Args:
        workers: how many workers the server has unless told otherwise; None if its strategy has always one.
        most_waiting: no more requests may wait than that, however many workers there are, unless told otherwise.
    """
    script = Path(sys.argv[0])
    requires = getattr(sys.modules["__main__"], "REQUIRES", "")
    if lacking := unmet(requires):
        quit_with(f"{lacking}; {remedy(requires, 'run it with such a Python')}")
    parser = _OneLineParser(prog=script.name, description=_title())
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=default_port(script.stem), help="default: %(default)s")
    parser.add_argument(
        "--task", type=_task, default="primes", help="a name, module:function, or module:function('acme', 3)"
    )
    parser.add_argument("--workers", type=_workers, default=workers, help="default: %(default)s")
    parser.add_argument("--queue", type=_queue, help=f"how many may wait; {_default_queue(workers, most_waiting)}")
    given = parser.parse_args()
    if workers is None:
        given.workers = 1
    if given.queue is None:
        wanted = QUEUE_WITHOUT_WORKERS if workers is None else QUEUE_PER_WORKER * given.workers
        given.queue = min(wanted, most_waiting)
    given_options = (given.host, given.port, given.task, given.workers, given.queue)
    return Options(script.stem, *given_options, shares_thread=workers is None)


def quit_with(message: str) -> NoReturn:
    """Ends the server over a mistake in how it was started: one line on stderr, exit code 2."""
    print(f"{Path(sys.argv[0]).stem}: {message}", file=sys.stderr)  # noqa: T201 (this is the one that speaks)
    raise SystemExit(2)


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        quit_with(f"{message} (try --help)")


def _title() -> str | None:
    return getattr(sys.modules["__main__"], "__doc__", None)


def _port(text: str) -> int:
    return _whole_number(text, 0, 65535)


def _workers(text: str) -> int:
    return _whole_number(text, 1, MOST_WORKERS)


def _queue(text: str) -> int:
    return _whole_number(text, 0, LONGEST_QUEUE)


def _default_queue(workers: int | None, most: int) -> str:
    if workers is None:
        return f"default: {QUEUE_WITHOUT_WORKERS}"
    return f"default: {QUEUE_PER_WORKER} for each worker{f', {most} at most' if most < LONGEST_QUEUE else ''}"


def _whole_number(text: str, low: int, high: int) -> int:
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise argparse.ArgumentTypeError(f"expected a whole number from {low} to {high}, not {text!r}")
    return int(text)


def _task(spec: str) -> str:
    try:
        resolve(spec)
    except UnknownTaskError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return spec
