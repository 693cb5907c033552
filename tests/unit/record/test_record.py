"""Saving and loading results, including those of older schemas."""

import pytest
from conftest import TESTS

from under_siege.record.record import Record
from under_siege.record.result import SCHEMA, BadResultError, Environment, Result, load, save


def a_result() -> Result:
    environment = Environment(
        cpu_model="a CPU",
        cpus=2,
        usable_cpus=2,
        memory_bytes=1,
        system="Linux",
        pythons={},
        packages={},
        tools={"siege": "4.0.7"},
        commit="",
    )
    return Result(environment=environment, command=["bench.py"], began_at="2026-11-20T05:00:00+00:00", seed=1, rounds=3)


def a_record(**values) -> Record:
    fixed = {"server": "1_sync", "title": "One", "values": {"task": "primes", "users": 2}, "round": 1}
    return Record(**{**fixed, "began_at": "", "load_average": 0.0, "time_s": 4.0, **values})


def columns_of(record: Record) -> tuple[list, ...]:
    answers = record.transactions
    return answers.finished_s, answers.took_s, answers.status, answers.size_bytes, answers.user


def test_a_saved_result_is_loaded_unchanged(tmp_path) -> None:
    result = a_result()
    result.records.append(a_record())
    for column, value in zip(columns_of(result.records[0]), (0.5, 0.25, 200, 4, 0), strict=True):
        column.append(value)
    save(result, tmp_path / "r.json")
    assert load(tmp_path / "r.json") == result
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]  # no temporary file is left


def test_two_records_do_not_share_column_lists() -> None:
    assert a_record().transactions.finished_s is not a_record().transactions.finished_s


def test_a_failed_save_leaves_no_temporary_file(tmp_path) -> None:
    (tmp_path / "r.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        save(a_result(), tmp_path / "r.json")
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"schema": "x"}', '{"schema": 1, "records": 3}', "\xff"])
def test_files_that_are_not_results_cause_a_one_line_error(text, tmp_path) -> None:
    (tmp_path / "r.json").write_text(text, encoding="latin-1")
    with pytest.raises(BadResultError) as caught:
        load(tmp_path / "r.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", sorted((TESTS / "data").glob("schema-*.json")), ids=lambda path: path.stem)
def test_result_files_of_every_schema_can_be_loaded(path) -> None:
    assert load(path).records


@pytest.mark.parametrize("schema", [1, 2, 3, 4])
def test_saving_a_result_of_an_older_schema_keeps_the_values(schema, tmp_path) -> None:
    old = load(TESTS / "data" / f"schema-{schema}.json")
    save(old, tmp_path / "r.json")
    new = load(tmp_path / "r.json")
    assert (old.schema, new.schema) == (schema, SCHEMA)
    assert new.records == old.records
    assert new.traces == old.traces
    assert {record.is_ceiling for record in new.records} == ({False} if schema == 1 else {True, False})
    assert {(record.case.task, record.case.users, record.case.python) for record in new.records} == {
        ("primes", 25, "3.11.7")
    }
    assert all(record.transactions.took_s and record.load_s and record.tool == "siege" for record in new.records)
    assert new.environment.tools == {"siege": "4.0.7"}
