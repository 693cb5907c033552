"""Totals that the drivers parse from reports of load tools; test_load_tools.py tests real reports.

All numbers in a report differ, so that the tests detect numbers that are lost or counted twice.
"""

import json

import pytest
from load_specs import load_spec

from under_siege.load.ab import Ab
from under_siege.load.locust import Locust
from under_siege.load.siege import Siege
from under_siege.load.stressor import Stressor
from under_siege.load.tool import ToolOutput, Totals
from under_siege.load.wrk import Wrk

USERS = 4
ORDER = load_spec(USERS, 1.0, "http://127.0.0.1:8000/")
PERCENTILES = "Percentage served,Time in ms\n50,10.500\n95,20.500\n98,25.500\n99,30.500\n100,40.500\n"


def of_ab(complete: int, wrong: int, connect: int = 0, receive: int = 0, exceptions: int = 0, total: int = 9) -> Totals:
    said = (
        f"Time taken for tests:   1.500 seconds\nComplete requests:      {complete}\nFailed requests:        7\n"
        f"   (Connect: {connect}, Receive: {receive}, Length: 0, Exceptions: {exceptions})\n"
        f"Non-2xx responses:      {wrong}\nKeep-Alive requests:    17\nTotal transferred:      {total} bytes\n"
        "HTML transferred:       19 bytes\n"
    )
    totals = Ab().totals(ToolOutput(0, said, files={"percentiles.csv": PERCENTILES}), ORDER)
    assert totals is not None
    return totals


def test_totals_of_ab_are_parsed() -> None:
    """ab's complete requests include receive errors, but not connection errors; exceptions include receive errors."""
    assert of_ab(1000, wrong=100, connect=1, receive=20, exceptions=300) == Totals(
        right=880,
        wrong_status=100,
        unanswered=301,
        connect_errors=1,
        took_s=1.5,
        p50_s=0.0105,
        p95_s=0.0205,
        p99_s=0.0305,
        max_s=0.0405,
        kept_alive=17,
        body_bytes=19,
    )


def test_ab_exceptions_without_any_bytes_are_reported_as_connection_errors() -> None:
    totals = of_ab(100, wrong=0, connect=1, exceptions=50, total=0)
    assert (totals.right, totals.unanswered, totals.connect_errors, totals.max_s) == (0, 151, 51, None)


def test_neither_the_request_limit_nor_the_timeout_of_ab_ends_a_load_early(tmp_path) -> None:
    words = Ab().command("ab", tmp_path, load_spec(4, 10.0, "http://a/"))
    assert int(words[words.index("-n") + 1]) > 1_000_000
    assert int(words[words.index("-s") + 1]) > 10
    assert {"-l", "-r"} <= set(words)  # accept varying lengths, and continue after errors


OF_WRK = {
    "requests": 1000,
    "duration_us": 1_500_000,
    "connect": 1,
    "read": 20,
    "write": 300,
    "status": 40,
    "p50_us": 10,
    "p95_us": 20,
    "p99_us": 30,
    "max_us": 40,
    "body_bytes": 19,
    "asked_bytes": 0,
    "wrong_bodies": 5,
}


def of_wrk(**report: object) -> Totals | None:
    return Wrk().totals(ToolOutput(0, f"{{a line of a script\n{json.dumps(OF_WRK | report)}\n"), ORDER)


def test_totals_of_wrk_are_parsed() -> None:
    assert of_wrk() == Totals(
        right=955,
        wrong_status=45,
        unanswered=321,
        connect_errors=1,
        took_s=1.5,
        p50_s=10e-6,
        p95_s=20e-6,
        p99_s=30e-6,
        max_s=40e-6,
        body_bytes=19,
        wrong_contents=5,
    )


@pytest.mark.parametrize("broken", ["connect", "read", "write", "status"])
def test_the_bytes_received_by_wrk_are_not_compared_after_a_connection_or_status_error(broken: str) -> None:
    order = load_spec(USERS, 1.0, "http://a/", paths=(("/a", 10),))
    nothing = dict.fromkeys(("connect", "read", "write", "status"), 0)
    for broke_off, odd in ((0, 950), (1, None)):
        report = json.dumps(OF_WRK | nothing | {"asked_bytes": 1019, broken: broke_off})
        assert Wrk().totals(ToolOutput(0, report), order).odd_bytes == odd


ERRORS = {
    "CatchResponseError('wrong contents')": 1,
    "CatchResponseError('status 500')": 20,
    "BadStatusCode('http://a/', code=404)": 300,
    "ConnectionRefusedError(111, 'Connection refused')": 4000,
    "RemoteDisconnected('closed')": 50000,
}


def of_locust(errors: dict[str, int] = ERRORS, **report: object) -> Totals | None:
    usual = {"requests": 100_000, "took_s": 1.5, "percentiles_ms": [10, 20, 50, 40.5], "body_bytes": 19}
    text = json.dumps(usual | {"errors": [*errors.items()]} | report)
    return Locust().totals(ToolOutput(0, files={"totals.json": text}), ORDER)


def test_totals_of_locust_are_parsed() -> None:
    """The maximum limits p99, because Locust rounds percentiles, which can then exceed the maximum."""
    assert of_locust() == Totals(
        right=45_679,
        wrong_status=321,
        unanswered=54_000,
        connect_errors=4000,
        took_s=1.5,
        p50_s=0.01,
        p95_s=0.02,
        p99_s=0.0405,
        max_s=0.0405,
        body_bytes=19,
        wrong_contents=1,
    )


def test_locust_without_responses_has_no_response_times() -> None:
    totals = of_locust({"RemoteDisconnected('closed')": 3}, requests=3)
    assert (totals.right, totals.unanswered, totals.p50_s, totals.max_s) == (0, 3, None, None)


def test_the_time_limit_passed_to_locust_exceeds_the_duration_of_the_load(tmp_path) -> None:
    words = Locust().command("locust", tmp_path, load_spec(4, 10.0, "http://a/"))
    assert words[words.index("-t") + 1] == "40s"


def of_stressor(*activities: tuple[str, int, str, int], run_time: str = "1.500 sec", kinds: str = "") -> Totals | None:
    """Return the totals of activities, each given by name, count, maximum duration and errors."""
    lines = [f"\x1b[33mRun time {run_time}, net: 4.104 sec.\x1b[0m", "Executed 9,999 activities"]
    for name, count, longest, errors in activities:
        report = f", {errors} errors" if errors else ""
        lines += [f"  - /main/0/{name}", f"    n: {count:,}, min: 0.1 sec, avg: 0.2 sec, max: {longest}{report}"]
    return Stressor().totals(ToolOutput(0, kinds, "\n".join(lines)), ORDER)


def kind(count: int, error: str) -> str:
    return f"{{'errors': {count}, 'last_error': \"{error}('x')\"}}"


def test_totals_of_stressor_are_parsed() -> None:
    """Activities that check contents do not count as requests; their errors belong to the request before them."""
    kinds = kind(20, "ActivityError") + kind(300, "ActivityTimeoutError") + kind(1000, "HTTPError")
    activities = (
        ("PutRequest(a)", 1500, "0.210 sec", 320),
        ("GetRequest(a)", 2000, "2:05.40 min", 1000),
        ("RunScript(a)", 9000, "9.0 sec", 0),
    )
    assert of_stressor(*activities, run_time="1:01.50 min", kinds=kinds) == Totals(
        right=2180, wrong_status=1000, unanswered=320, took_s=61.5, max_s=125.4
    )


@pytest.mark.parametrize(
    ("kinds", "contents"),
    [
        (kind(3, "ActivityAssertionError"), 3),
        (kind(3, "ScriptActivityError"), 3),
        (kind(2, "ScriptActivityError") + kind(1, "HTTPError"), 0),
        ("", 0),
    ],
)
def test_errors_of_stressor_count_as_wrong_contents_only_if_all_are_errors_of_checks(kinds: str, contents: int) -> None:
    totals = of_stressor(("GetRequest(a)", 10, "0.2 sec", 3), kinds=kinds)
    assert (totals.wrong_status, totals.unanswered, totals.wrong_contents) == (3, 0, contents)


def test_5xx_responses_are_subtracted_from_the_failed_transactions_of_siege() -> None:
    assert Siege().failures("Failed transactions:\t 9\n", [499, 500, 503, 200]) == 7
    assert Siege().failures("Failed transactions:\t 0\n", [500]) == 0


def test_coloured_output_lines_of_siege_are_parsed() -> None:
    line = "\x1b[0;32m   4,HTTP/1.1,200,  0.28,      5,/,0,2026-11-20 04:48:55\x1b[0m"
    assert Siege().parse_line(line).size_bytes == 5
