"""Run a task once in a worker process, and print its result as JSON: the expected answer.

usage: python -P reference_run.py TASK        exit 2 and one line if the task can't be performed there
"""

import dataclasses
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import NoReturn

from common.parent_watch import follow_server
from common.task import TaskError, UnknownTaskError, perform, resolve


def main(spec: str) -> None:
    """Perform the task as the server with the process pool would.

    The worker is forked before the task is looked for, while there is no thread yet: it knows as little of the task as
    one of the server's, and needs no fork server, which takes as long as all else here.
    """
    with ProcessPoolExecutor(1, get_context("fork"), follow_server) as pool:
        pool.submit(int)
        try:
            resolve(spec)
        except UnknownTaskError as error:
            _give_up(str(error))
        try:
            run = pool.submit(perform, spec).result()
        except UnknownTaskError as error:
            _give_up(f"task {spec!r} can't reach a worker process: {error}")
        except BrokenProcessPool:
            _give_up(f"task {spec!r} can't run in a worker process: it ended the process")
        except TaskError as error:
            _give_up(f"task {spec!r} raised {error}; a task that is to be measured must succeed")
    print("\n" + json.dumps(dataclasses.asdict(run)))  # noqa: T201 (the task may have left a line without its end)


def _give_up(reason: str) -> NoReturn:
    print(f"trial: {reason}", file=sys.stderr)  # noqa: T201
    raise SystemExit(2)


if __name__ == "__main__":
    main(sys.argv[1])
