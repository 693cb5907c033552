"""A server that exits at the nth task request from the bench, suddenly or slowly.

Its file name specifies both: `crashes-2-slowly.py` exits slowly at the second request.
"""

import atexit
import itertools
import os
import sys
import time
from pathlib import Path

from minimal_server import TaskOutcome, by_siege, serve

from common.options import server_options
from common.task import perform

options = server_options()
requests = itertools.count(1)
_, crashes_at, how = Path(__file__).stem.split("-")


def long_task(client: str) -> TaskOutcome:
    if not by_siege(client) and next(requests) == int(crashes_at):
        die()
    return perform(options.task)


def die():
    if how == "suddenly":
        print("no database at db:5432", file=sys.stderr, flush=True)
        os._exit(1)
    atexit.register(time.sleep, 0.8)  # simulates an interpreter with a long cleanup
    sys.exit("no database at db:5432")  # requests run in the main thread, so this ends the server


serve(options, long_task, threaded=False)
