"""A server that answers two requests from siege, and exits without a response at the third."""

import os
import sys

from minimal_server import TaskOutcome, by_siege, serve

from common.options import server_options
from common.task import perform

options = server_options()
answers = []


def long_task(client: str) -> TaskOutcome:
    answers.append(by_siege(client))
    if sum(answers) > 2:
        print("Segmentation fault (or something like it)", file=sys.stderr, flush=True)
        os._exit(3)
    return perform(options.task)


serve(options, long_task, threaded=False)
