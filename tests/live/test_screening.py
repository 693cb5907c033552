"""A real run that decides itself when to end: a short first round, then further rounds."""

import shutil
from pathlib import Path

from command import invoke
from conftest import SUPPORT

from under_siege.record.record import Record
from under_siege.record.requests import CHECK, CORRECT, OPEN
from under_siege.record.result import load


def test_the_first_round_does_not_wait_for_open_requests_but_later_rounds_do(tmp_path: Path) -> None:
    shutil.copy(SUPPORT / "sample_tasks.py", tmp_path / "my_jobs.py")
    words = ("run", "2", "3", "--users", "4", "--task", "my_jobs:a_blink", "--out", "r.json")
    ran = invoke(*words, folder=tmp_path)
    result = load(tmp_path / "r.json")
    assert result.until_certain, ran.stderr
    of_servers = [record for record in result.records if not record.is_ceiling]
    assert not [record.failure for record in of_servers if record.failure]
    assert {record.round for record in of_servers if record.drain is None} == {1}
    assert {record.server for record in of_servers if record.round == 1} == {"2_async", "3_async_threadexecutor"}
    assert max(record.round for record in of_servers) > 1
    assert all(outcomes(record) <= {CORRECT, OPEN} for record in of_servers)
    assert all(outcomes(record) == {CORRECT} for record in of_servers if record.round > 1)
    assert "up to 150 s in total" in ran.stderr


def outcomes(record: Record) -> set[str]:
    return set(record.requests.only(CHECK).outcome)
