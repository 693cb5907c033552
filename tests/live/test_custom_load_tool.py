"""A new load tool needs only a driver: its command line and a parser for its output."""

import os
from dataclasses import replace

import pytest
from conftest import SUPPORT
from fake_load import Fake, SilentWatcher
from plans import plan_of

from common.errors import BadInputError
from under_siege.host.machine_check import examine
from under_siege.host.programs import find
from under_siege.judge.ranking import summarize
from under_siege.load import DRIVERS
from under_siege.load.request import Load
from under_siege.measure.rounds import run_plan
from under_siege.measure.session import Reporting
from under_siege.record.result import load


def test_a_custom_load_tool_generates_the_load_of_a_complete_run(tmp_path, monkeypatch) -> None:
    Fake().install(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    monkeypatch.setitem(DRIVERS, "fake-load", Fake())
    plan = plan_of("2", users=3, task="sample_tasks:a_blink")
    plan = replace(plan, load=Load(tool="fake-load", requests=30), ceilings=())
    result, stopped_by, _ = run_plan(plan, Reporting(tmp_path / "r.json", SilentWatcher(), ["bench.py"]))
    assert stopped_by is None
    assert load(tmp_path / "r.json") == result
    assert result.environment.tools == {"fake-load": "1.2.3"}
    (record,) = result.records
    assert record.failure is None
    assert (record.tool, record.tool_step_s, record.tool_unknown) == ("fake-load", 0.001, 0)
    assert record.tool_command[0] == "fake-load"
    assert record.tool_report == "lost: 0"
    rows = record.requests.only("load")
    assert sorted(rows.user) == [0] * 10 + [1] * 10 + [2] * 10
    assert {*rows.status} == {200}
    assert {*rows.size_bytes} == {record.answer_bytes}
    assert {*rows.outcome} == {"correct"}
    took_s = [ended_s - sent_s for sent_s, ended_s in zip(rows.sent_s, rows.ended_s, strict=True)]
    assert 0 < min(took_s) <= max(took_s) < record.load_s
    assert record.unlisted_losses == 0
    assert summarize(result).cases[0].transactions == len(rows)


def test_a_missing_load_tool_is_reported_with_an_install_hint() -> None:
    with pytest.raises(BadInputError, match="fake-load is not installed; install it with: your system's package"):
        find(Fake())


def test_siege_is_not_required_with_another_load_tool(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert any("siege is not installed" in finding.what for finding in examine(0.01))
    assert not any("siege" in finding.what for finding in examine(0.01, "ab"))
