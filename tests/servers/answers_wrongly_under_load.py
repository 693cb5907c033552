"""Knows siege when it sees it, and sends it an empty body."""

from plainly import ToolOutput, by_siege, serve

from common.options import server_options
from common.task import perform

options = server_options()


def long_task(client: str) -> ToolOutput:
    run = perform(options.task)
    return (200, "") if by_siege(client) else run


serve(options, long_task)
