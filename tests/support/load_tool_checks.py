"""What tests of load tools share."""

import pytest
from tool_recordings import TIME_S, USERS, recorded

from common.errors import BadInputError
from under_siege.environments.tool_install import Tool, find
from under_siege.load_tools import DRIVERS
from under_siege.load_tools.tool import LoadSpec, Totals

TOOLS = [name for name, driver in DRIVERS.items() if not driver.streams_responses]


ORDER = LoadSpec(USERS, TIME_S, "http://127.0.0.1:8000/")


def needed(name: str) -> None:
    """Skips the test where the tool isn't there."""
    try:
        find(DRIVERS[name])
    except BadInputError as error:
        pytest.skip(str(error))


def which_it_is_is_known(patched: pytest.MonkeyPatch) -> None:
    """No tool is asked for its version, which takes those in Python almost as long as a load.

    That each tells it: test_tool_reports_its_version; and that it is in the result: test_driver.py.
    """
    patched.setattr(Tool, "version", lambda tool: tool.driver.requirement.partition("~=")[2] or "1.2.3")


def totals_of(name: str, way: str) -> Totals:
    totals = DRIVERS[name].totals(recorded(name, way), ORDER)
    assert totals is not None
    return totals
