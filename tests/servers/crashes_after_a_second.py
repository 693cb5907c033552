"""A server that exits after one second. A copy named `crashes_in_warm_up.py` answers no task requests."""

import os
import sys
import threading
from pathlib import Path

from minimal_server import TaskOutcome, serve

from common.options import server_options
from common.task import perform

options = server_options()


def long_task(_client: str) -> TaskOutcome:
    if Path(__file__).stem == "crashes_in_warm_up":
        threading.Event().wait()
    return perform(options.task)


def die():
    print("no licence any more", file=sys.stderr, flush=True)
    os._exit(1)


threading.Timer(1, die).start()
serve(options, long_task)
