"""Refuse suites that need a load tool where a command sends its own requests."""

from collections.abc import Iterator

from common.errors import BadInputError
from common.model.suite import Suite
from common.model.target import Amount

CAPACITY, DRILL, TRACE, RUN_TRACE = "capacity", "drill", "trace", "run --trace"
_OF_OWN_LOAD = (CAPACITY, DRILL, TRACE)


def refuse_unsupported(command: str, suite: Suite) -> None:
    """Raise BadInputError if a key changes what is sent or measured, and this command would ignore it.

    Keys that only say how much load there is may be ignored: `users`, `time`, `requests`, `threads`,
    `locust_workers`, and which tool makes the load.
    """
    for key, why, commands in _needing_a_tool(suite):
        if command in commands:
            instead = "bench.py run without --trace" if command == RUN_TRACE else "bench.py run"
            raise BadInputError(
                f"{suite.source}: {key}: {command} sends its own requests and {why}; "
                f"use {instead}, or a suite without this key"
                if suite.source
                else f"{key}: {command} {why}; use {instead}, or --style waiting"
            )
    for target in suite.targets:
        if suite.load.own_network and target.url and not target.command:
            raise BadInputError(
                f"{suite.source}: load.own_network: {target.name} runs at {target.url}, "
                "which can't be reached from a network of its own"
            )


def _needing_a_tool(suite: Suite) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield each key that is set and needs a load tool, why it does, and the commands that can't support it."""
    load = suite.load
    if load.script:
        yield "load.script", "can't run a load tool's script", (*_OF_OWN_LOAD, RUN_TRACE)
    if load.options:
        yield "load.options", "can't pass options to a load tool", (*_OF_OWN_LOAD, RUN_TRACE)
    if load.posts_jobs:
        yield "load.tool" if suite.source else "--style jobs", "can't post jobs", (*_OF_OWN_LOAD, RUN_TRACE)
    if load.files:
        yield "load.files", "asks for one path only", (CAPACITY, DRILL)
    if suite.expect.check:
        yield "expect.check", "doesn't run the check after a load", _OF_OWN_LOAD
    if load.warm_up not in (None, Amount()):
        yield "load.warm_up", "can't warm servers up with a load tool", _OF_OWN_LOAD
    for target in (*suite.targets, *([suite.ceiling] if suite.ceiling else [])):
        if target.warm_up not in (None, Amount()):
            yield f"servers.{target.name}.warm_up", "can't warm servers up with a load tool", _OF_OWN_LOAD
