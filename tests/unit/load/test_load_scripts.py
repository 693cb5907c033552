"""The arguments of load tools and their scripts: which tools run them, and the totals of their requests."""

from pathlib import Path

import pytest
from load_specs import load_spec

from under_siege.load import DRIVERS
from under_siege.load.request import Request
from under_siege.load.stressor import Stressor
from under_siege.load.tool import ToolOutput


def test_only_locust_and_stressor_support_scripts() -> None:
    able = {name for name, driver in DRIVERS.items() if not driver.refusal(load_spec(4, 1.0, "", script="x"))}
    assert able == {"locust", "stressor"}


LOST = "{'/main/1/PutRequest(/x)': {'errors': 3, 'last_error': \"ActivityError('gone'\"}}"
WRONG = "{'/main/2/GetRequest(/x)': {'errors': 3, 'last_error': \"ActivityAssertionError(['no match'\"}}"
SUMMARY = """Run time 1.000 sec, net: 3.0 sec.
  - /main/1/PutRequest(/x)
    n: 1,200, min: 0.001 sec, avg: 0.002 sec, max: 0.032 sec{}
  - /main/2/GetRequest(/x)
    n: 1,200, min: 0.001 sec, avg: 0.002 sec, max: 0.031 sec, 3 errors
"""


@pytest.mark.parametrize(
    ("stdout", "lost", "expected"),
    [(WRONG, "", (2397, 3, 0, 3)), (LOST + WRONG, ", 3 errors", (2394, 3, 3, 0))],
    ids=["wrong_get_after_put", "unverifiable_get_after_lost_put"],
)
def test_totals_include_all_activities_of_a_stressor_script(stdout: str, lost: str, expected: tuple[int, ...]) -> None:
    totals = Stressor().totals(ToolOutput(1, stdout, SUMMARY.format(lost)), load_spec(3, 1.0, ""))
    assert (totals.right, totals.wrong_status, totals.unanswered, totals.wrong_contents) == expected
    assert totals.max_s == 0.032


@pytest.mark.parametrize("name", DRIVERS)
def test_no_load_tool_gets_secrets_as_arguments(name: str, tmp_path: Path) -> None:
    """Every user of a machine can see the arguments of all processes, so ab, which needs them, is refused."""
    request = Request("POST", (("Authorization", "Bearer t0ken"), ("X-Api-Key", "t0ken")), b"t0ken")
    spec = load_spec(2, 1.0, "http://127.0.0.1:8000/", request=request, port=8001)
    assert bool(DRIVERS[name].refusal(spec)) == (name == "ab")
    if name != "ab":
        assert not any("t0ken" in word for word in DRIVERS[name].command("program", tmp_path, spec))
