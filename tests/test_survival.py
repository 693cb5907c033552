"""Every server survives more than it can do, and clients that leave."""

import itertools
from pathlib import Path

import pytest
from conftest import ROOT, SERVERS, Served, receive, serving, wait_until

from common.contract import LONGEST_QUEUE
from common.harness.drill.plan import drill_plan
from common.harness.ready.strategies import all_strategies, by_hand, read_strategy, strategies_suite

FULL = "the queue is full, 0 requests wait in it"
BLIND = {"2_async"}  # the loop stands still while others come, so that it can't know of them


@pytest.mark.parametrize("script", SERVERS, ids=lambda path: path.stem)
def test_more_than_it_can_do_is_refused_and_who_has_left_costs_nothing(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = tmp_path / "done"
    done.touch()
    monkeypatch.setenv("DONE", str(done))
    with serving(script, "--workers", "1", "--queue", "3", "--task", "sample_tasks:told_when_done") as served:
        assert served.request("/").status == 200
        for connection in [served.send("/") for _ in range(4)]:
            connection.close()
        assert served.request("/").body == "at last"
        # What had begun can't always be stopped, and a pool has more at hand than it works on.
        assert len(done.read_text()) <= 4
        if script.stem not in BLIND:
            it_refuses(served)
        served.process.terminate()
        assert served.process.wait(timeout=20) == 0
        assert (served.process.stdout.read(), served.process.stderr.read()) == ("", "")


def it_refuses(served: Served) -> None:
    answers = [receive(connection) for connection in [served.send("/") for _ in range(8)]]
    assert {answer.status for answer in answers} == {200, 503}
    for refused in (answer for answer in answers if answer.status == 503):
        assert refused.body.startswith("503 Service Unavailable: the queue is full, ")
        assert "\n" not in refused.body
        assert int(refused.headers["retry-after"]) > 0
    assert served.request("/ready").status == 200


def test_it_is_not_ready_while_its_queue_is_full_and_the_ping_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    script = ROOT / "servers" / "3_async_threadexecutor.py"
    with serving(script, "--workers", "1", "--queue", "0", "--task", "sample_tasks:half_a_second") as served:
        assert served.request("/ready").status == 200
        request = served.send("/")
        wait_until((tmp_path / "begun").exists)
        answer = served.request("/ready")
        assert (answer.status, answer.body) == (
            503,
            "503 Service Unavailable: the queue is full, 0 requests wait in it",
        )
        assert served.request("/ping").body == "pong"
        assert receive(request).status == 200
        assert served.request("/ready").status == 200


def test_the_bench_sends_no_server_of_ours_more_than_it_takes_but_the_drill_does(tmp_path: Path) -> None:
    for strategy in all_strategies():
        assert ("--queue", str(LONGEST_QUEUE)) in itertools.pairwise(strategy.command)
        assert "--queue" not in by_hand(strategy).command
    plan, _ = drill_plan(strategies_suite(["4"]), ["overload"], {"python": ["python3"]}, rounds=1, seed=1)
    assert "--queue" not in plan.targets["4_async_processexecutor"].command
    other = tmp_path / "other.py"
    other.write_text('"""Has options of its own, among them a --port."""\n')
    assert "--queue" not in read_strategy(other).command
