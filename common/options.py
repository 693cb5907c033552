"""Parse the command-line options of a server, and report errors on one line."""

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from common.task import resolve
from common.task_name import UnknownTaskError

FIRST_PORT, MOST_WORKERS = 8000, 1000


@dataclass(frozen=True, slots=True)
class Options:
    """The command-line options of a server."""

    name: str
    host: str
    port: int
    task: str
    workers: int
    queue: int | None  # how many requests may wait before others are refused; None: no limit


def server_options(workers: int | None = None) -> Options:
    """Return the options from the command line, or exit with a one-line error.

    Args:
        workers: default of --workers; None if there is always one worker.
    """
    script, main = Path(sys.argv[0]), sys.modules["__main__"]
    wanted = re.fullmatch(r"python>=(\d+)\.(\d+)", getattr(main, "REQUIRES", ""))
    if wanted and sys.version_info[:2] < (int(wanted[1]), int(wanted[2])):
        quit_with(f"needs Python {wanted[1]}.{wanted[2]} or later; run it with a newer Python")
    parser = _OneLineParser(prog=script.name, description=main.__doc__)
    add, default = parser.add_argument, "default: %(default)s"
    add("--host", default="127.0.0.1", help=f"address to listen on; {default}")
    add("--port", type=_whole_number(0, 65535), default=default_port(script.stem), help=f"port to listen on; {default}")
    add("--task", default="primes", help="a built-in task, module:function, or module:function('acme', 3)")
    workers_help = "ignored: one thread runs all tasks" if workers is None else f"number of workers; {default}"
    add("--workers", type=_whole_number(1, MOST_WORKERS), default=workers or 1, help=workers_help)
    add("--queue", type=_whole_number(0, 1_000_000), help="refuse requests (503) when this many wait; default: never")
    given = parser.parse_args()
    try:
        resolve(given.task)
    except UnknownTaskError as error:
        quit_with(str(error))
    given.workers = 1 if workers is None else given.workers
    return Options(script.stem, **vars(given))


def default_port(stem: str) -> int:
    """Return the default port of a server: 8000 for `1_…` or without a number, 8001 for `2_…`, and so on."""
    number = re.match(r"\d+", stem)
    return FIRST_PORT + int(number[0]) - 1 if number else FIRST_PORT


def quit_with(message: str) -> NoReturn:
    """Print one line on stderr and exit with code 2."""
    print(f"{Path(sys.argv[0]).stem}: {message}", file=sys.stderr)  # noqa: T201
    raise SystemExit(2)


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        quit_with(f"{message} (try --help)")


def _whole_number(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"expected a whole number from {low} to {high}, not {text!r}")
        return int(text)

    return parse
