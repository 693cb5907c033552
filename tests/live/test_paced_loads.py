"""Users who pause, and requests that arrive at a given rate."""

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from bench_runs import run_once
from conftest import thorough
from load_tool_checks import arrived_in_load, needed, skip_version_lookup
from scripted_server import received, write_suite

from under_siege.judge.ranking import summarize

USERS, PAUSE_S, ARRIVALS_PER_S, TIME_S = 8, 0.2, 20, 3
# The bench's client can expect any status, and its users don't follow a redirect.
PATHS = {"client": ("/echo/redirect/elsewhere", 302), "wrk": ("/echo", 200), "locust": ("/echo", 200)}


@pytest.mark.parametrize("tool", thorough(PATHS, quick=("client", "wrk")))
def test_each_user_pauses_after_each_response_and_keeps_its_connection(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed(tool)
    skip_version_lookup(monkeypatch)
    path, status = PATHS[tool]
    tool_key = f"requests = {5 * USERS}\n" if tool == "client" else f'tool = "{tool}"\ntime = "{TIME_S}s"\n'
    load = f'{tool_key}users = {USERS}\npause = "{PAUSE_S}s"\nkeep_alive = true'
    expect = f'[expect]\nstatus = {status}\nignore = ["number", "headers"]\n'
    result, ran = run_once(tmp_path, str(write_suite(tmp_path, path, load, expect)))
    (record,), (case,) = result.records, summarize(result).cases
    assert record.tool == tool
    assert case.availability_pct == 100, (case.reasons, ran.stderr)
    assert {one["path"] for one in received(tmp_path)} == {path}
    of_users = defaultdict(list)
    for one in arrived_in_load(record, received(tmp_path)):
        of_users[one["connection"]].append(one["at"])
    several = {connection: at_s for connection, at_s in of_users.items() if len(at_s) > 1}
    assert 0 < len(several) <= USERS
    shortest_s = min(later - earlier for at_s in several.values() for earlier, later in pairwise(at_s))
    assert shortest_s >= PAUSE_S - 0.002  # wrk's timers count milliseconds
    checks, outcomes = len(record.requests.only("check")) - 1, Counter(record.requests.only("load").outcome)
    counted = outcomes["correct"] + sum(record.bursts.right)
    assert {*outcomes} <= {"correct"}
    sent = sum(map(len, of_users.values())) - checks
    assert 0 <= sent - counted <= USERS * len(record.bursts.right)


def test_requests_arrive_even_if_earlier_ones_are_unanswered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server responds to no request of the load before the load has ended."""
    skip_version_lookup(monkeypatch)
    load = f'arrivals = "{ARRIVALS_PER_S}/s"'
    suite = write_suite(tmp_path, f"/after/12/slow/{TIME_S + 0.5}", load)
    (record,) = run_once(tmp_path, str(suite), "--time", f"{TIME_S}s")[0].records
    assert record.tool == "client"
    assert "users" not in record.values
    assert record.values["arrivals"] == f"{ARRIVALS_PER_S}/s"
    slow = [one for one in arrived_in_load(record, received(tmp_path)) if one["number"] > 12]
    outcomes = Counter(record.requests.only("load").outcome)
    assert {*outcomes} <= {"correct", "open"}  # correct: if the bench has sent fewer than 12 requests before
    assert outcomes.total() <= ARRIVALS_PER_S * TIME_S
    assert 3 <= len(slow) - len(record.requests.only("check")) <= outcomes["open"]
