"""Load tools that report totals: parse recorded, live and generated output."""

import itertools

import pytest
from any_text import any_text
from hypothesis import given, settings
from hypothesis import strategies as st
from load_tool_checks import ORDER, TOOLS, needed, totals_of
from tool_recordings import BODY, FOLDER, TIME_S, USERS, WAYS, output_of, recorded

from under_siege.load import DRIVERS
from under_siege.load.tool import LoadSpec, ToolOutput, Totals

RECORDED = sorted(tuple(path.stem.split("-")) for path in FOLDER.glob("*.json"))


def check(name: str, way: str, totals: Totals) -> None:
    """Check the totals of a recorded or live run against limits that hold on any machine."""
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


@pytest.mark.parametrize(("name", "way"), RECORDED)
def test_recorded_load_tool_output_is_parsed(name: str, way: str) -> None:
    check(name, way, totals_of(name, way))


def test_output_is_recorded_for_every_combination_of_load_tool_and_server_behaviour() -> None:
    wanted = {(name, way) for name in TOOLS for way in WAYS} - {
        ("stressor", "never")
    }  # stressor would wait for an hour
    assert set(RECORDED) == wanted


LIVE = {*itertools.product(TOOLS, ("half_500", "slow"))} - {("locust", "slow"), ("stressor", "half_500")}


@pytest.mark.parametrize(("name", "way"), sorted(LIVE))
def test_live_load_tool_output_is_parsed(name: str, way: str) -> None:
    """Load tools that start slowly are tested with only one kind of response."""
    needed(name)
    output, order = output_of(name, way)
    totals = DRIVERS[name].totals(output, order)
    assert totals is not None, output
    check(name, way, totals)


@pytest.mark.parametrize("name", ["wrk", "locust"])
def test_load_tools_that_compare_bodies_detect_wrong_bodies(name: str) -> None:
    needed(name)
    output, order = output_of(name, "slow", expected=b"hallo")
    totals = DRIVERS[name].totals(output, order)
    assert totals is not None, output
    assert totals.right == 0 < totals.wrong_contents == totals.wrong_status


@pytest.mark.parametrize("name", [*TOOLS, "siege"])
def test_each_load_tool_reports_its_version(name: str) -> None:
    needed(name)
    from under_siege.host.programs import isolated_tool

    with isolated_tool(DRIVERS[name]) as tool:
        assert tool.version()[0].isdigit()


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


def test_length_failures_reported_by_ab_are_ignored() -> None:
    """ab reports such failures only without the option -l, which the bench sets."""
    output = recorded("ab", "right")
    failures = "Failed requests:        900\n   (Connect: 0, Receive: 0, Length: 900, Exceptions: 0)\n"
    stdout = output.stdout.replace("Failed requests:        0\n", failures)
    assert stdout != output.stdout
    assert DRIVERS["ab"].totals(ToolOutput(0, stdout, "", output.files), ORDER) == totals_of("ab", "right")


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


def test_a_load_that_a_tool_does_not_support_causes_a_one_line_error() -> None:
    refused = {
        ("ab", LoadSpec(4, 1.0, "", threads=2)): "one thread",
        ("siege", LoadSpec(4, 1.0, "", threads=2)): "always uses a thread for each user; remove threads = 2",
        ("ab", LoadSpec(4, 1.0, "", requests=3)): "3 requests among 4 users",
        ("wrk", LoadSpec(25, 1.0, "", threads=2)): "25 is not a multiple of 2",
        ("wrk", LoadSpec(4, 1.0, "", requests=100)): "wrk can't stop after a given number of requests",
        ("locust", LoadSpec(4, 1.0, "", requests=100)): "locust can't stop after a given number of requests",
        ("stressor", LoadSpec(4, 1.0, "", requests=100)): "stressor can't stop after a given number of requests",
        ("stressor", LoadSpec(4, 1.0, "", threads=2)): "one thread",
        ("siege", LoadSpec(4, 1.0, "", requests=10)): "10 can't be divided among 4 users",
    }
    for (name, order), words in refused.items():
        assert words in DRIVERS[name].refusal(order)
        assert "\n" not in DRIVERS[name].refusal(order)
    for name, driver in DRIVERS.items():
        assert driver.refusal(LoadSpec(4, 1.0, "", keep_alive=True)) == "", name


def test_command_lines_of_load_tools_contain_the_required_options(tmp_path) -> None:
    words = {name: driver.command(name, tmp_path, ORDER) for name, driver in DRIVERS.items()}
    ab = list(words["ab"])
    assert ab.index("-t") < ab.index("-n")  # otherwise -t would limit ab to 50,000 requests
    assert ab[ab.index("-e") + 1] == str(tmp_path / "percentiles.csv")
    assert "-k" not in ab
    wrk = list(words["wrk"])
    assert wrk[wrk.index("--timeout") + 1] == "2s"  # longer than the load
    assert "Connection: close" in wrk
    counted = DRIVERS["ab"].command("ab", tmp_path, LoadSpec(4, 1.0, "http://a/", requests=10000, keep_alive=True))
    assert "-t" not in counted
    assert {"-k", "10000"} <= set(counted)
    assert '"Connection"' in DRIVERS["stressor"].files(ORDER)["load.yaml"]
    assert '"Connection"' in DRIVERS["locust"].files(ORDER)["locustfile.py"]
    kept = LoadSpec(4, 1.0, "http://a/", keep_alive=True)
    assert '"Connection"' not in DRIVERS["stressor"].files(kept)["load.yaml"]
    assert '"Connection"' not in DRIVERS["locust"].files(kept)["locustfile.py"]
    with_options = LoadSpec(4, 1.0, "http://a/", options=("--with_options",))
    for name, driver in DRIVERS.items():
        assert "--with_options" in driver.command(
            name, tmp_path, with_options
        ) or "no load-tool options" in driver.refusal(with_options)
