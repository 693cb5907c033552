"""Recorded and generated output of load tools that report totals, and their command lines."""

import pytest
from any_text import any_text
from hypothesis import given, settings
from hypothesis import strategies as st
from load_specs import load_spec
from load_tool_checks import BODY, FOLDER, LEFT_OUT, ORDER, TIME_S, TOOLS, USERS, WAYS, recorded, totals_of
from simulated_bursts import burst_record_of
from verdicts import codes, judged

from under_siege.load import DRIVERS
from under_siege.load.request import MixedRequest, Request, parse_pause, parse_rate_per_s
from under_siege.load.tool import ToolOutput

RECORDED = sorted(tuple(path.stem.split("-")) for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize(("name", "way"), RECORDED)
def test_recorded_load_tool_output_is_parsed(name: str, way: str) -> None:
    totals = totals_of(name, way)
    answers, nothing = totals.right + totals.wrong_status, totals.right + totals.wrong_status + totals.unanswered == 0
    expected = {
        "right": totals.right > 0 == totals.wrong_status == totals.unanswered,
        "slow": USERS <= totals.right <= 5 * USERS and totals.unanswered == 0,
        "kept_alive": totals.right > 0 == totals.unanswered,
        "keep_alive_ignored": totals.right > 0 == totals.wrong_status,
        "not_found": totals.wrong_status > 0 == totals.right,
        "half_500": totals.wrong_status > 0 and abs(totals.right - totals.wrong_status) <= 2 * USERS,
        "refused": answers == 0 and totals.unanswered >= totals.connect_errors > 0,
        "closed": answers == 0 and totals.unanswered > 0 == totals.connect_errors,
        "never": answers == 0 and (nothing or name == "ab"),
    }
    assert expected[way], totals
    if totals.took_s is not None:
        assert 0.9 * TIME_S < totals.took_s < 10 * TIME_S
    if way == "slow" and totals.p50_s is not None:
        assert 0.19 < totals.p50_s <= totals.p95_s <= totals.p99_s <= totals.max_s < 10
    if way in ("right", "slow") and totals.body_bytes is not None:
        assert 0 <= totals.body_bytes - len(BODY) * totals.right <= len(BODY) * USERS


def test_output_is_recorded_for_every_combination_of_load_tool_and_server_behaviour() -> None:
    assert set(RECORDED) == {(name, way) for name in TOOLS for way in WAYS} - LEFT_OUT


def test_404_responses_are_not_counted_as_transactions() -> None:
    for tool in TOOLS:
        totals = totals_of(tool, "not_found")
        case = judged(burst_record_of("1_all_404", tool=tool, right=totals.right, wrong_status=totals.wrong_status))
        assert (case.verdict, codes(case)) == ("failed", ["no_transactions"])


@pytest.mark.parametrize(
    ("name", "way", "error"),
    [
        ("ab", "refused", "receive errors"),
        ("ab", "half_500", ""),
        ("wrk", "refused", "unable to connect"),
        ("wrk", "closed", "read errors"),
        ("wrk", "right", ""),
        ("locust", "refused", "ConnectionRefused"),
        ("locust", "right", ""),
        ("stressor", "refused", "NewConnectionError"),
        ("stressor", "closed", "Connection aborted"),
        ("stressor", "right", ""),
    ],
)
def test_errors_of_load_tools_are_found_in_their_output(name: str, way: str, error: str) -> None:
    output = recorded(name, way)
    errors = DRIVERS[name].errors("\n".join([output.stdout, output.stderr, *output.files.values()]))
    assert any(error in one for one in errors) if error else errors == []


def test_the_versions_of_tools_in_python_are_found_in_their_output() -> None:
    assert DRIVERS["locust"].version("locust 2.47.1 from /venv/locust (Python 3.11.7, OpenSSL 3.0.13)\n") == "2.47.1"
    assert DRIVERS["stressor"].version("0.6.0\n") == "0.6.0"


def test_the_number_of_kept_alive_responses_is_parsed_from_the_output_of_ab() -> None:
    assert totals_of("ab", "kept_alive").kept_alive == totals_of("ab", "kept_alive").right
    assert totals_of("ab", "keep_alive_ignored").kept_alive == 0
    assert totals_of("ab", "right").kept_alive is None


def test_percentiles_that_ab_reads_beyond_the_measured_requests_become_the_maximum() -> None:
    """For 7 requests, ab reads its 95th percentile past the end of its array."""
    output = recorded("ab", "slow")
    few = output.files["percentiles.csv"].replace("\n95,", "\n95,0.000\n195,").replace("\n99,", "\n99,0.000\n199,")
    stdout = output.stdout.replace("Complete requests:      14", "Complete requests:      7")
    assert stdout != output.stdout
    totals = DRIVERS["ab"].totals(ToolOutput(0, stdout, "", {"percentiles.csv": few}), ORDER)
    assert totals.p95_s == totals.p99_s == totals.max_s > 0.2


@settings(max_examples=25)  # per load tool
@given(data=st.data())
@pytest.mark.parametrize("name", TOOLS)
def test_garbage_in_load_tool_output_causes_no_exception_and_no_negative_totals(name: str, data: st.DataObject) -> None:
    """Insert garbage into recorded output."""
    output = recorded(name, data.draw(st.sampled_from([way for of_name, way in RECORDED if of_name == name])))

    def with_garbage(text: str) -> str:
        start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        garbage = data.draw(
            st.one_of(any_text(), st.integers().map(str), st.sampled_from(["NaN", "1e999", "null", "-1"]))
        )
        return text[:start] + garbage + text[end:]

    files = {path: with_garbage(text) for path, text in output.files.items()}
    stdout = ToolOutput(
        data.draw(st.integers(-64, 255)), with_garbage(output.stdout), with_garbage(output.stderr), files
    )
    totals = DRIVERS[name].totals(stdout, ORDER)
    if totals is not None:
        assert min(totals.right, totals.wrong_status, totals.unanswered, totals.connect_errors) >= 0
        assert totals.took_s is None or totals.took_s > 0
        assert all(value is None or value >= 0 for value in (totals.p50_s, totals.p95_s, totals.p99_s, totals.max_s))


def put(body: bytes) -> Request:
    return Request("PUT", (), body)


REFUSED = {  # the tools, a load that they can't generate, and the word that says why
    "threads": (("ab", "stressor", "client"), {"threads": 2}, "one thread"),
    "threads of siege": (("siege",), {"threads": 2}, "threads = 2"),
    "uneven threads": (("wrk",), {"users": 25, "threads": 2}, "multiple of 2"),
    "few requests": (("ab",), {"requests": 3}, "3 requests among 4 users"),
    "uneven requests": (("siege",), {"requests": 10}, "10 can't be divided"),
    "requests": (("wrk", "locust", "stressor", "jobs"), {"requests": 100}, "given number of requests"),
    "pauses": (("siege", "ab", "stressor", "jobs"), {"pause": parse_pause("1s")}, "use wrk, locust or client"),
    "pauses of new connections": (("wrk",), {"pause": parse_pause("1s")}, "keep_alive = true"),
    "arrivals": (
        ("siege", "ab", "wrk", "locust", "stressor", "jobs"),
        {"users": 0, "arrivals_per_s": 20.0},
        'tool = "client"',
    ),
    "a delay": (("siege",), {"options": ("--delay=1",)}, "load.options"),
    "a short delay": (("siege",), {"options": ("-d1",)}, "load.options"),
    "a separate delay": (("siege",), {"options": ("-d", "1")}, "load.options"),
    "an abbreviated delay": (("siege",), {"options": ("--del=0.5",)}, "load.options"),
    "too many users": (("siege",), {"users": 1001}, "1,000"),
    "a final line break": (("siege",), {"request": put(b"a\n")}, "siege can't send"),
    "NUL": (("siege",), {"request": put(b"a\0b")}, "siege can't send"),
    "binary": (("stressor",), {"request": put(b"a\xff")}, "ASCII"),
    "mix": (
        ("ab", "stressor", "jobs"),
        {"mix": (MixedRequest("/a", put(b"")), MixedRequest("/b", put(b"")))},
        "one request; use siege, wrk or locust",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_load_that_a_tool_does_not_support_causes_a_one_line_error(what: str) -> None:
    names, load, word = REFUSED[what]
    for name in names:
        refusal = DRIVERS[name].refusal(load_spec(**{"users": 4, "time_s": 1.0, "url": "http://a/"} | load))
        assert word in refusal
        assert "\n" not in refusal


def test_loads_that_the_tools_support_are_not_refused() -> None:
    for name, driver in DRIVERS.items():
        keep_alive = name != "siege"  # which counts requests on a connection that the server has closed as failed
        assert driver.refusal(load_spec(4, 1.0, "", keep_alive=keep_alive, request=put(b"a"))) == "", name
    assert "idle connection" in DRIVERS["siege"].refusal(load_spec(4, 1.0, "", keep_alive=True))
    assert DRIVERS["siege"].refusal(load_spec(2, 1.0, "", options=("--debug", "-D", "--no-parser"))) == ""
    arriving = load_spec(0, 1.0, "", arrivals_per_s=20.0)
    assert DRIVERS["client"].refusal(arriving) == ""


def test_pauses_and_rates_are_parsed() -> None:
    assert [parse_pause(text).mean_s for text in ("1s", "0.5s-2s", "0s-2s")] == [1.0, 1.25, 1.0]
    assert (parse_pause("exponential 500ms").mean_s, parse_pause("exponential 500ms").is_exponential) == (0.5, True)
    assert [parse_rate_per_s(text) for text in ("20/s", "90/min", "0/s", "20/day")] == [20.0, 1.5, None, None]


def test_command_lines_of_load_tools_contain_the_required_options(tmp_path) -> None:
    words = {name: driver.command(name, tmp_path, ORDER) for name, driver in DRIVERS.items()}
    ab = list(words["ab"])
    assert ab.index("-t") < ab.index("-n")  # otherwise -t would limit ab to 50,000 requests
    assert "-k" not in ab
    wrk = list(words["wrk"])
    assert wrk[wrk.index("--timeout") + 1] == "2s"  # longer than the load
    assert "Connection: close" in wrk
    counted = DRIVERS["ab"].command("ab", tmp_path, load_spec(4, 1.0, "http://a/", requests=10000, keep_alive=True))
    assert "-t" not in counted
    assert {"-k", "10000"} <= set(counted)
    locust = DRIVERS["locust"].command("locust", tmp_path, load_spec(4, 1.0, "http://a/", threads=3))
    assert locust[locust.index("--processes") + 1] == "3"
    assert locust[locust.index("--master-bind-host") + 1] == "127.0.0.1"
    with_options = load_spec(4, 1.0, "http://a/", options=("--with_options",))
    for name, driver in DRIVERS.items():
        assert "--with_options" in driver.command(name, tmp_path, with_options) or driver.refusal(with_options), name
