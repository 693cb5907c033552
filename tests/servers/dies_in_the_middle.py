"""Answers siege twice, then ends without a word of goodbye."""

import os
import sys

from plainly import ToolOutput, by_siege, serve

from common.options import server_options
from common.task import perform

options = server_options()
answers = []


def long_task(client: str) -> ToolOutput:
    answers.append(by_siege(client))
    if sum(answers) > 2:
        print("Segmentation fault (or something like it)", file=sys.stderr, flush=True)
        os._exit(3)
    return perform(options.task)


serve(options, long_task, threaded=False)
