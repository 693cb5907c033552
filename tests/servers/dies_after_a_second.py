"""Ends one second after its start, whatever it does then; as `dies_at_work.py` before it has answered anybody."""

import os
import sys
import threading
from pathlib import Path

from plainly import ToolOutput, serve

from common.options import server_options
from common.task import perform

options = server_options()


def long_task(_client: str) -> ToolOutput:
    if Path(__file__).stem == "dies_at_work":
        threading.Event().wait()
    return perform(options.task)


def die():
    print("no licence any more", file=sys.stderr, flush=True)
    os._exit(1)


threading.Timer(1, die).start()
serve(options, long_task)
