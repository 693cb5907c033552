"""scripts/detectable_change.py shows how small a change a number of rounds shows."""

from types import ModuleType

import pytest
from conftest import ROOT
from source_code import script

from under_siege.record.result import load

AGAINST = ROOT / "results" / "against.json.gz"  # compares two revisions, one of which is slower


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return script("detectable_change")


def test_more_rounds_detect_smaller_changes_and_real_changes_count_as_alarms(study: ModuleType) -> None:
    rows = study.rows_of([load(AGAINST)], most=8)
    assert list(rows) == ["2 rounds", "4 rounds", "8 rounds"]
    sizes = [row["throughput"].value for row in rows.values()]
    assert sizes == sorted(sizes, reverse=True)
    assert 0 < sizes[-1] < sizes[0] / 2
    assert rows["8 rounds"]["throughput"].text == "4 % (4 to 4 %)"
    assert (rows["8 rounds"]["false alarms"].text, rows["8 rounds"]["undecided"].text) == ("1 of 1", "0 of 1")


def test_a_result_of_fewer_rounds_has_only_their_records(study: ModuleType) -> None:
    assert {record.round for record in study.first_rounds(load(AGAINST), 3).records} == {1, 2, 3}
