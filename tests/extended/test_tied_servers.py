"""Count how often a server ties with a copy of itself. Run it with `--all -s`."""

import shutil

import pytest
from conftest import ROOT

from under_siege.judge.ranking import summarize
from under_siege.record.result import load

RUNS, TIES_WANTED = 20, 19


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("server", ["2_async", "4_async_processexecutor"])
def test_a_server_ties_with_a_copy_of_itself(run_cli, tmp_path, server) -> None:
    for name in ("1_one", "2_other"):
        shutil.copy(ROOT / "servers" / f"{server}.py", tmp_path / f"{name}.py")
    ties = 0
    for number in range(RUNS):
        ran = run_cli("run", "1_one.py", "2_other.py", "--time", "2s", "--out", "r.json")
        ranks = {case.server: case.rank for case in summarize(load(tmp_path / "r.json")).cases}
        ties += set(ranks.values()) == {1}
        print(f"run {number + 1}: {ranks}, ties so far: {ties}, exit code {ran.returncode}")
    assert ties >= TIES_WANTED
