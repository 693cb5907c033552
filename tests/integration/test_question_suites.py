"""The suites of docs/questions/ run in their quick profile; only servers that break on purpose fail."""

import tomllib
from pathlib import Path

import pytest
from command import invoke
from conftest import ROOT

from under_siege.model.record import load

SUITES = sorted(path.parent for path in (ROOT / "suites" / "questions").glob("*/suite.toml"))


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_the_servers_of_a_question_answer_correctly(suite: Path, tmp_path: Path) -> None:
    breaks = tomllib.loads((suite / "answer.toml").read_text()).get("breaks", [])
    ran = invoke("run", str(suite), "--quick", "--rounds", "1", "--quiet", "--out", str(tmp_path / "result.json"))
    assert ran.returncode in (0, 1, 3), ran.stderr  # 3: a server is suspect
    records = load(tmp_path / "result.json").records
    failures = {record.server: record.failure.message for record in records if record.failure}
    assert {server: why for server, why in failures.items() if server not in breaks} == {}
