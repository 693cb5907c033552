"""A server that answers $FINE requests (by default, none), then fails with tracebacks on stderr."""

import itertools
import logging
import os

from minimal_server import TaskOutcome, serve

from common.options import server_options
from common.task import perform

options = server_options()
fine, answers = int(os.environ.get("FINE", "0")), itertools.count()


def long_task(_client: str) -> TaskOutcome:
    if next(answers) < fine:
        return perform(options.task)
    try:
        return 200, {}["customer"]
    except KeyError:
        logging.exception("Exception on / [GET]")
        return 500, "Internal Server Error"


serve(options, long_task)
