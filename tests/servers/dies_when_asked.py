"""Ends as its name says: at the request with that number, of those that are not siege's, suddenly or slowly.

`dies-2-slowly.py` ends at the second one.
"""

import atexit
import itertools
import os
import sys
import time
from pathlib import Path

from plainly import ToolOutput, by_siege, serve

from common.options import server_options
from common.task import perform

options = server_options()
requests = itertools.count(1)
_, dies_at, how = Path(__file__).stem.split("-")


def long_task(client: str) -> ToolOutput:
    if not by_siege(client) and next(requests) == int(dies_at):
        die()
    return perform(options.task)


def die():
    if how == "suddenly":
        print("no database at db:5432", file=sys.stderr, flush=True)
        os._exit(1)
    atexit.register(time.sleep, 0.8)  # as an interpreter that has much to put away
    sys.exit("no database at db:5432")  # on the main thread; the request is not answered


serve(options, long_task, threaded=False)
