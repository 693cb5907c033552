"""Streams of servers whose events come at known times, or that break a stream off."""

import json
from pathlib import Path

import pytest
from bench_runs import run_once
from command import invoke
from load_tool_checks import arrived_in_load, skip_version_lookup
from scripted_server import received, write_suite

from under_siege.judge.ranking import summarize

USERS, STREAMS, EVENTS, FIRST = 4, 24, 20, 12  # more requests than the bench sends before the load
LASTS_S = EVENTS * 0.02 + 0.4
PATHS = {
    "pauses": f"/stream/{EVENTS}/0.02/pause/10/0.4",
    "breaks": f"/stream/{EVENTS}/0.01/after/{FIRST}/every/2/break/5",
    "plain": "/text/hello",
}


def test_streams_are_counted_and_each_has_all_its_events_unless_it_breaks_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_version_lookup(monkeypatch)
    write_suite(tmp_path, PATHS, f'stream = "sse"\nusers = {USERS}\nrequests = {STREAMS}')
    result, ran = run_once(tmp_path, "suite.toml")
    assert ran.returncode == 1
    records = {record.server: record for record in result.records}
    cases = {case.server: case for case in summarize(result).cases}
    assert records["plain"].failure.code == "no_stream"
    assert cases["pauses"].availability_pct == 100, cases["pauses"].reasons
    assert cases["breaks"].availability_pct < 100
    assert "broke off" in str(cases["breaks"].reasons)
    for server in ("pauses", "breaks"):
        streams, checks = (records[server].requests.only(sender) for sender in ("load", "check"))
        arrived = [one for one in arrived_in_load(records[server], received(tmp_path)) if one["path"] == PATHS[server]]
        assert len(arrived) - len(checks) + 1 == len(streams) == STREAMS
        broken = sum(server == "breaks" and one["number"] > FIRST and one["number"] % 2 == 0 for one in arrived)
        assert 0 <= broken - streams.outcome.count("lost") <= len(checks)
        assert {*streams.outcome} <= {"correct", "lost"}
        complete = [index for index, outcome in enumerate(streams.outcome) if outcome == "correct"]
        assert {1 + len(streams.gaps_us[index]) for index in complete} == {EVENTS}
        cut = [index for index, outcome in enumerate(streams.outcome) if outcome == "lost"]
        assert {1 + len(streams.gaps_us[index]) for index in cut} <= {5}
        if server == "pauses":
            lasted_us = [streams.first_us[index] + sum(streams.gaps_us[index]) for index in complete]
            assert min(lasted_us) >= LASTS_S * 1e6
    told = json.loads(invoke("report", "r.json", "--format", "json", folder=tmp_path).stdout)["cases"]
    (pauses,) = [case for case in told if case["server"] == "pauses"]
    assert {"events_per_s", "first_event_s", "gap_s"} <= {*pauses}


FIRST_TEXT = {  # the path of a stream, more keys of [load], and the number of its events that don't count
    "a known format": ("/chat/20/0.02/pause/1/0.4", "", 1),
    "a pattern": ("/stream/20/0.02/pause/4/0.4", "first = '/^([4-9]|1.)$/'", 4),
}


@pytest.mark.parametrize("what", FIRST_TEXT)
def test_only_events_with_text_count(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_version_lookup(monkeypatch)
    path, key, before = FIRST_TEXT[what]
    write_suite(tmp_path, path, f'stream = "sse"\nusers = 2\nrequests = 4\n{key}')
    result, _ = run_once(tmp_path, "suite.toml")
    (record,) = result.records
    assert record.failure is None, record.failure
    streams = record.requests.only("load")
    assert {*streams.outcome} == {"correct"}
    assert {1 + len(gaps_us) for gaps_us in streams.gaps_us} == {EVENTS - before} == {len(record.idle_events_s)}
    assert min(streams.first_us) >= 0.4e6
    shown = invoke("report", "r.json", folder=tmp_path).stdout
    assert "first text" in shown
    assert "first event" not in shown


def test_a_place_of_text_that_no_event_has_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_version_lookup(monkeypatch)
    write_suite(tmp_path, "/chat/3/0.01", 'stream = "sse"\nfirst = "choices.0.text"')
    ran = invoke("run", "suite.toml", folder=tmp_path)
    assert ran.returncode == 2
    assert "load.first = choices.0.text: " in ran.stderr
    assert "assistant" in ran.stderr


def test_the_warning_with_which_django_holds_streams_back_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_version_lookup(monkeypatch)
    warning = "Warning: StreamingHttpResponse must consume synchronous iterators in order to serve them asynchronously."
    keys = f'stream = "sse"\nusers = 1\nrequests = 2\nheaders = {{ X-Printed = "{warning}" }}'
    write_suite(tmp_path, "/print/stream/3/0.01", keys)  # a server that prints the headers of requests
    result, _ = run_once(tmp_path, "suite.toml")
    assert [record.consumed_iterators for record in result.records] == ["synchronous"]
