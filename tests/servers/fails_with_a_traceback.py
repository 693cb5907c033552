"""A server that fails with tracebacks on stderr: always or, with UNDER_LOAD set, from the first request of siege on."""

import logging
import os

from minimal_server import TaskOutcome, by_siege, serve

from common.options import server_options
from common.task import perform

options = server_options()
fails = "UNDER_LOAD" not in os.environ


def long_task(client: str) -> TaskOutcome:
    global fails
    fails = fails or by_siege(client)
    if not fails:
        return perform(options.task)
    try:
        return 200, {}["customer"]
    except KeyError:
        logging.exception("Exception on / [GET]")
        return 500, "Internal Server Error"


serve(options, long_task)
