"""The record and its file."""

import pytest
from conftest import TESTS

from common.model.record import BadResultError, Environment, Record, Result, load, save


def a_result() -> Result:
    environment = Environment(
        cpu_model="a CPU",
        cpus=2,
        usable_cpus=2,
        memory_bytes=1,
        system="Linux",
        pythons={},
        packages={},
        siege="4.0.7",
        commit="",
    )
    return Result(environment=environment, command=["bench.py"], began_at="2026-11-20T05:00:00+00:00", seed=1, rounds=3)


def a_record(**values) -> Record:
    fixed = {"server": "1_sync", "title": "One", "task": "primes", "users": 2, "python": "3.11.7", "round": 1}
    return Record(**{**fixed, "began_at": "", "load_average": 0.0, "time_s": 4.0, **values})


def test_what_is_saved_is_loaded(tmp_path) -> None:
    result = a_result()
    result.records.append(a_record())
    result.records[0].alone_wall_s.append(0.5)
    save(result, tmp_path / "r.json")
    assert load(tmp_path / "r.json") == result
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]  # no temporary file is left


def test_two_records_do_not_share_their_columns() -> None:
    assert a_record().transactions.finished_s is not a_record().transactions.finished_s


def test_a_file_that_can_not_be_replaced_is_left_as_it_was(tmp_path) -> None:
    (tmp_path / "r.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        save(a_result(), tmp_path / "r.json")
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"schema": "x"}', '{"schema": 1, "records": 3}', "\xff"])
def test_anything_else_is_refused_with_one_line(text, tmp_path) -> None:
    (tmp_path / "r.json").write_text(text, encoding="latin-1")
    with pytest.raises(BadResultError) as caught:
        load(tmp_path / "r.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", sorted((TESTS / "data").glob("schema-*.json")), ids=lambda path: path.stem)
def test_files_of_every_schema_still_load(path) -> None:
    assert load(path).records
