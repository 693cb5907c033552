"""Run a task once in a worker process, and print its result as JSON: the expected response.

usage: python -P expected_answer.py TASK        exit 2 and print one line if the task fails
"""

import dataclasses
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import NoReturn

from common.task import TaskError, perform, resolve
from common.task_name import UnknownTaskError
from common.workers import exit_with_server


def main(spec: str) -> None:
    """Perform the task in the worker of a process pool, as the server with a process pool does.

    The worker is forked before the task is imported and before any thread exists. It therefore has to import the task,
    like a worker of that server. A fork server is unnecessary, and would double the duration of this script.
    """
    with ProcessPoolExecutor(1, get_context("fork"), exit_with_server) as pool:
        pool.submit(int)
        try:
            resolve(spec)
        except UnknownTaskError as error:
            _give_up(str(error))
        try:
            run = pool.submit(perform, spec).result()
        except UnknownTaskError as error:
            _give_up(f"task {spec!r} can't be sent to a worker process: {error}")
        except BrokenProcessPool:
            _give_up(f"task {spec!r} can't run in a worker process: the task terminated the process")
        except TaskError as error:
            _give_up(f"task {spec!r} raised {error}; use a task that succeeds")
    print("\n" + json.dumps(dataclasses.asdict(run)))  # noqa: T201 (starts a new line, in case the task printed something)


def _give_up(reason: str) -> NoReturn:
    print(f"trial: {reason}", file=sys.stderr)  # noqa: T201
    raise SystemExit(2)


if __name__ == "__main__":
    main(sys.argv[1])
