"""The load of the capacity search: all requests of a mix are sent, and each response has the right outcome."""

from collections import Counter
from pathlib import Path

from command import invoke
from scripted_server import received, write_suite

from under_siege.record.result import load
from under_siege.suite.suite_file import read_suite

FIRST = 8  # more requests for each path than the bench sends to a server before a step
AFTERWARDS = {
    "refused": f"/text/one/after/{FIRST}/status/503",
    "limited": f"/text/two/after/{FIRST}/status/429",
    "wrong": f"/text/three/after/{FIRST}/text/four",
    "lost": f"/text/five/after/{FIRST}/drop",
}
RIGHT = "/queue/0.01/text/right"


def test_refused_limited_wrong_and_lost_requests_have_different_outcomes(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, [{"path": path} for path in (RIGHT, *AFTERWARDS.values())], "")
    ran = invoke("capacity", str(suite), "--time", "3s", "--out", "r.json", "--quiet", folder=tmp_path)
    assert ran.returncode in (1, 3), ran.stderr
    steps, log = load(tmp_path / "r.json").steps, received(tmp_path)
    assert {one["path"] for one in log} == {RIGHT, *AFTERWARDS.values()}
    counted = Counter(outcome for step in steps for outcome in step.record.requests.only("load").outcome)
    assert set(counted) - {"correct", "open", "late"} == set(AFTERWARDS)
    for outcome, path in AFTERWARDS.items():
        arrived = sum(one["path"] == path and one["number"] > FIRST for one in log)
        assert 0 < counted[outcome] <= arrived, outcome  # without those whose responses came after the step


def test_each_step_sends_a_mix_in_its_own_random_order(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, [{"path": "/queue/0.01/text/one"}, {"path": "/text/two"}], "")
    ran = invoke("capacity", str(suite), "--time", "10s", "--seed", "1", "--out", "r.json", "--quiet", folder=tmp_path)
    assert ran.returncode in (0, 1, 3), ran.stderr
    steps, mix = load(tmp_path / "r.json").steps, read_suite(suite).load
    sent = {step.record.round: step.record.requests.only("load") for step in steps if not step.closed_users}
    orders = {number: sorted(zip(each.due_s, each.request, strict=True))[:20] for number, each in sent.items()}
    assert orders
    for number, order in orders.items():  # they differ, as a test of `Load.order` shows
        assert [request for _, request in order] == mix.order(1, number)[:20]
