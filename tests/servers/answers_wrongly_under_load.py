"""A server that sends siege an empty body, and all other clients the right response."""

from minimal_server import TaskOutcome, by_siege, serve

from common.options import server_options
from common.task import perform

options = server_options()


def long_task(client: str) -> TaskOutcome:
    run = perform(options.task)
    return (200, "") if by_siege(client) else run


serve(options, long_task)
