"""The command line and the output of siege."""

from pathlib import Path

import pytest
from conftest import TESTS
from load_specs import load_spec

from under_siege.host.programs import install_command_of, isolated_tool
from under_siege.load import DRIVERS
from under_siege.load.ab import Ab
from under_siege.load.client import Client
from under_siege.load.request import Request
from under_siege.load.siege import Siege
from under_siege.load.tool import Driver, ToolResponse


def test_a_transaction_line_of_siege_is_parsed() -> None:
    line = "   4,HTTP/1.1,200,  0.28,      5,/,0,2026-11-20 04:48:55"  # siege 4.0.7
    assert Siege().parse_line(line) == ToolResponse(user=4, status=200, took_s=0.28, size_bytes=5, path="/")
    other = " 104,HTTP/1.0,503, 12.00,1234567,/a,b,0,2026-11-20 04:48:55"
    assert Siege().parse_line(other) == ToolResponse(104, 503, 12.0, 1234567, "/a,b")


@pytest.mark.parametrize("line", ["", "** SIEGE 4.0.7", "New configuration template added to /root/.siege", "1,2,3"])
def test_other_output_lines_of_siege_are_not_parsed_as_transactions(line: str) -> None:
    assert Siege().parse_line(line) is None


def test_failed_transactions_are_read_from_the_summary_of_siege() -> None:
    assert Siege().failures("Transactions:\t 57 hits\nFailed transactions:\t          59\nLongest", []) == 59
    assert Siege().failures("", []) == 0


def test_siege_is_configured_in_a_home_directory_that_is_removed_after_use() -> None:
    """The time limit of siege is longer than the load."""
    with isolated_tool(Siege()) as siege:
        home = siege.home
        command = siege.command(load_spec(25, 4.2, "http://127.0.0.1:8000/"))
        assert "connection = close\n" in (home / "siegerc").read_text()
        assert command[2:] == ["-c25", "-t95S", "http://127.0.0.1:8000/"]
    assert not home.exists()


SECRET_PATH = "http://127.0.0.1:8000/report?session=1234"  # noqa: S105


@pytest.mark.parametrize(
    "driver", [driver for driver in DRIVERS.values() if driver.name != "ab"], ids=lambda one: one.name
)
def test_a_path_with_a_secret_is_no_argument_of_a_load_tool(driver: Driver, tmp_path: Path) -> None:
    for request in (Request(), Request("POST", body=b"1")):
        spec = load_spec(25, 4.2, SECRET_PATH, request=request)
        assert driver.refusal(spec) == ""
        assert "1234" not in " ".join(driver.command("tool", tmp_path, spec))
        private = str(driver.order(spec, 0.0)) if isinstance(driver, Client) else str(driver.files(spec))
        assert "1234" in private or r"\\049\\050\\051\\052" in private


def test_tools_that_can_not_hide_a_path_with_a_secret_are_rejected() -> None:
    assert "every user of this machine can see" in Ab().refusal(load_spec(25, 4.2, SECRET_PATH))
    assert "a secret and $" in Siege().refusal(load_spec(25, 4.2, f"{SECRET_PATH}$"))


def test_the_install_command_names_siege() -> None:
    assert "siege" in install_command_of(Siege())


@pytest.mark.parametrize("version", ["4.0.2", "4.0.4", "4.0.7", "4.1.5", "4.1.7"])
def test_output_of_every_recorded_siege_version_is_parsed(version: str) -> None:
    head, _, report = (TESTS / "data" / f"siege-{version}.txt").read_text().partition("---\n")
    lines = head.splitlines()[1:]
    assert [Siege().parse_line(line) for line in lines] == [
        ToolResponse(4, 200, 0.28, 5, "/"),
        ToolResponse(3, 200, 0.28, 5, "/"),
        ToolResponse(0, 500, 0.30, 3, "/"),
    ]
    assert Siege().failures(report, []) == 1


def test_errors_of_siege_are_counted_without_colours_places_and_threads() -> None:
    report = (
        "[\x1b[1;33merror\x1b[0m] socket: unable to connect sock.c:282: Operation already in progress\n"
        "[error] socket: -140213 address is unavailable.: Cannot assign requested address\n"
        "[error] socket: 140299 address is unavailable.: Cannot assign requested address\nTransactions:\t 867 hits"
    )
    assert Siege().errors(report) == [
        "socket: address is unavailable.: Cannot assign requested address",
        "socket: unable to connect: Operation already in progress",
    ]
