"""Helpers for tests of load tools."""

import pytest
from tool_recordings import TIME_S, USERS, recorded

from common.errors import BadInputError
from under_siege.host.programs import Tool, find
from under_siege.load import DRIVERS
from under_siege.load.tool import LoadSpec, Totals

TOOLS = [name for name, driver in DRIVERS.items() if not driver.streams_responses]


ORDER = LoadSpec(USERS, TIME_S, "http://127.0.0.1:8000/")


def needed(name: str) -> None:
    """Skip the test if the tool is not installed."""
    try:
        find(DRIVERS[name])
    except BadInputError as error:
        pytest.skip(str(error))


def skip_version_lookup(patched: pytest.MonkeyPatch) -> None:
    """Don't ask tools for their versions, because starting a tool written in Python takes almost as long as a load.

    test_each_load_tool_reports_its_version tests the versions; test_custom_load_tool.py tests their recording.
    """
    patched.setattr(Tool, "version", lambda tool: tool.driver.requirement.partition("~=")[2] or "1.2.3")


def totals_of(name: str, way: str) -> Totals:
    totals = DRIVERS[name].totals(recorded(name, way), ORDER)
    assert totals is not None
    return totals
