"""A server that answers every second request from siege with an immediate error."""

import itertools

from minimal_server import TaskOutcome, by_siege, serve

from common.options import server_options
from common.task import perform

options = server_options()
requests = itertools.count()


def long_task(client: str) -> TaskOutcome:
    return (503, "too busy") if by_siege(client) and next(requests) % 2 else perform(options.task)


serve(options, long_task, threaded=False)
