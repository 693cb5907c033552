"""Result files: what is saved is loaded unchanged, and any other file causes a one-line error."""

import gzip
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import TESTS
from formatted import formatted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect
from simulated_record import bare_record, record_of, result_of

from common.errors import BadInputError
from under_siege.compare.diff import check_comparable, compare_results
from under_siege.compare.view import view
from under_siege.record.files import decompressed, read_limited
from under_siege.record.record import Machine, Trace, TracedRequests
from under_siege.record.result import SCHEMA, BadResultError, GrowingFile, Items, Result, load, save
from under_siege.show.formats import rendered

RESULT = TESTS / "data" / "result.json"
FORMATS = ["table", "timeline", "markdown", "csv", "json"]
EDITED = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
NUMBERS = [0, -1, 1, 1e-12, 0.5, 1e6, 1e15, -1e15, 1e308, 10**30, None, "x", True, []]


def raw_result() -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(RESULT.read_text())
    return raw


def written(folder: Path, what: Any) -> Path:
    path = folder / "r.json"
    path.write_bytes(what if isinstance(what, bytes) else json.dumps(what).encode())
    return path


def rejected(path: Path) -> str:
    """Return the error for a file; fail if it is loaded, or if the error is not a short line."""
    with pytest.raises(BadResultError) as refused:
        load(path)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 600
    return str(refused.value)


@pytest.mark.parametrize("name", ["r.json", "r.json.gz"])
def test_a_saved_result_is_loaded_unchanged(name: str, tmp_path: Path) -> None:
    result = load(RESULT)
    save(result, tmp_path / name)
    assert load(tmp_path / name) == result
    assert [path.name for path in tmp_path.iterdir()] == [name]  # no temporary file is left
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")


def grown(path: Path, result: Result) -> list[bytes]:
    """Add the records of a result to a file, one at a time; return the contents of the file after each."""
    growing, so_far, contents = GrowingFile(path), msgspec.structs.replace(result, records=[]), list[bytes]()
    for record in result.records:
        (added := Items.of(record)).add_to(so_far)
        growing.save(so_far, added)
        contents.append(path.read_bytes())
        assert load(path) == so_far
    return contents


@pytest.mark.parametrize("name", ["r.json", "r.json.gz"])
def test_each_record_of_a_run_is_saved_once_and_a_run_that_is_killed_loses_none(name: str, tmp_path: Path) -> None:
    result = result_of([record_of("1_a", round_) for round_ in (1, 2, 3)])
    path = tmp_path / name
    path.write_text("an earlier result")
    first, second, third = grown(path, result)
    assert second.startswith(first)
    assert third.startswith(second)
    path.write_bytes(third[:-9])  # killed while it appended the last record
    assert load(path) == msgspec.structs.replace(result, records=result.records[:2])
    path.write_bytes(third + b'{"records": 3}\n')
    rejected(path)


def test_a_file_that_another_program_changes_during_a_run_is_written_as_a_whole(tmp_path: Path) -> None:
    result, path = result_of([record_of("1_a", round_) for round_ in (1, 2)]), tmp_path / "r.json"
    growing = GrowingFile(path)
    growing.save(result, Items())
    for change in (path.unlink, lambda: path.write_bytes(path.read_bytes()[:-9])):
        change()
        growing.save(result, Items.of(result.records[1]))
        assert load(path) == result


def test_a_compressed_result_is_recognized_by_its_content(tmp_path: Path) -> None:
    assert load(written(tmp_path, gzip.compress(RESULT.read_bytes()))) == load(RESULT)


def test_commands_read_and_write_compressed_results(run_cli, tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(RESULT.read_bytes()))
    ran = run_cli("report", "a.json.gz", "--picture", "timeline", "--out", "b.json.gz")
    assert ran.returncode in (0, 3), ran.stderr
    assert load(tmp_path / "b.json.gz") == load(RESULT)
    assert run_cli("compare", "a.json.gz", "b.json.gz").returncode in (0, 3)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, b"{123}")
    assert read_limited(path, (b"{",), most_bytes=5) == b"{123}"
    with pytest.raises(ValueError, match="larger than 4 bytes"):
        read_limited(path, (b"{",), most_bytes=4)


def test_a_decompression_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(b"{" + bytes(10_000_000))
    with pytest.raises(ValueError, match="larger than 1,000 bytes when decompressed"):
        decompressed(bomb, most_bytes=1_000)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" ",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b"\x00\x01\x02",
        b"x" * 10_000,
        b"[" * 200_000,
        b'{"x":' * 200_000,
        b'{"schema": 6, "x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"schema": "x"}',
        b'{"schema": 6, "records": 3}',
        gzip.compress(b"{}", mtime=0),
        gzip.compress(RESULT.read_bytes(), mtime=0)[:-9],
        gzip.compress(RESULT.read_bytes(), mtime=0)[:999] + b"x" * 99,
        b"\x1f\x8b{",
    ],
    ids=lambda content: f"{content[:30]!r} and so on",
)
def test_an_invalid_file_causes_a_one_line_error(content: bytes, tmp_path: Path) -> None:
    rejected(written(tmp_path, content))


@pytest.mark.parametrize("schema", [-1, SCHEMA - 1, SCHEMA + 1])
def test_a_result_with_another_schema_is_rejected(schema: int, tmp_path: Path) -> None:
    assert f"schema {schema}: expected {SCHEMA}" in rejected(written(tmp_path, {**raw_result(), "schema": schema}))


def test_an_unreadable_file_causes_a_one_line_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "missing", tmp_path / "pipe", Path("/dev/null"), Path("/dev/zero")):
        rejected(path)


def test_a_failed_save_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "r.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        save(load(RESULT), tmp_path / "r.json")
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize("words", [["report", "r.json"], ["compare", "r.json", "r.json"]], ids=["report", "compare"])
def test_commands_reject_an_invalid_result_with_a_one_line_error(words: list[str], run_cli, tmp_path: Path) -> None:
    written(tmp_path, b"[" * 200_000)
    ran = run_cli(*words)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1), ran.stderr


def test_a_result_can_be_read_from_a_pipe() -> None:
    reading, writing = os.pipe()  # its buffer holds this result
    with os.fdopen(reading, "rb"):
        with os.fdopen(writing, "wb") as writer:
            writer.write(RESULT.read_bytes())
        assert load(Path(f"/dev/fd/{reading}")).records


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("load_s", 0, "load_s"),
        ("load_s", 1e300, "load_s"),
        ("round", 0, "round"),
        ("answer_bytes", 10**40, "answer_bytes"),
        ("values", {"users": 0}, "users is out of range: 0"),
        ("values", {"workers": "two"}, "workers is not a number"),
        ("values", {"task": 2}, "task is not a string"),
        ("values", {"size": -(2**53) - 1}, "size is out of range: -9.0072e+15"),
        ("beats", {"at_s": [1, 0], "cpu": [0, 0], "took_s": [0.1, 0.1]}, "at_s is not in ascending order"),
        (
            "requests",
            {"due_s": [1.0]},
            "requests has columns of different lengths: sender 0, user 0",
        ),
        ("cpu_times", {"at_s": [1.0], "busy_s": {"0": []}}, "cpu_times has columns of different lengths"),
    ],
)
def test_the_error_names_the_field_with_an_impossible_value(
    field: str, value: object, problem: str, tmp_path: Path
) -> None:
    raw = raw_result()
    raw["records"][0][field] = value
    assert problem in rejected(written(tmp_path, raw))


@pytest.mark.parametrize(
    ("span", "is_rejected"), [((0.1, 0.2, None), False), ((0.2, 0.1, 0.0), True), ((0.1, 1e9, 0.0), True)]
)
def test_task_spans_with_impossible_times_are_rejected(span: tuple, is_rejected: bool, tmp_path: Path) -> None:
    raw = raw_result()
    requests = {"sent_s": [0.1], "answered_s": [0.2], "worker": ["1/a"], "ran_s": [[span]]}
    raw["traces"] = [{"server": "1_a", "title": "A.", "values": {}, "requests": requests}]
    path = written(tmp_path, raw)
    assert "invalid span" in rejected(path) if is_rejected else load(path).traces


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" * 5000], ids=lambda text: text[:9])
def test_numbers_that_are_not_finite_cause_an_error(number: str, tmp_path: Path) -> None:
    text = RESULT.read_text().replace('"load_s":4.023191545999907', f'"load_s":{number}')
    assert number in text
    rejected(written(tmp_path, text.encode()))


def unlimited(kind: inspect.Type, path: str) -> Iterator[str]:
    """Yield the path of each number in a type that has no lower or no upper limit."""
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        if None in (kind.ge, kind.le):
            yield path
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if field.name not in ("schema", "seed", "values", "ran_s"):  # checked separately, or not computed with
                yield from unlimited(field.type, f"{path}.{field.name}")
    else:
        for part in ("item_type", "value_type", "types"):
            for inner in [found] if not isinstance(found := getattr(kind, part, ()), tuple) else found:
                yield from unlimited(inner, path)


def test_every_number_of_a_result_has_limits() -> None:
    assert [*unlimited(inspect.type_info(Result), "")] == []
    assert [*unlimited(inspect.type_info(dict[str, list[int | None]]), "x")] == ["x"]


def is_shown(path: Path, formats: list[str] = FORMATS) -> bool:
    """Return True if the result is shown, and False if a one-line error rejects it; otherwise, fail the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = load(path)
            for output_format in formats:
                formatted(result, output_format)
            check_comparable(result, result, force=True)
            rendered(view(compare_results(result, result)), "markdown")
        except BadInputError as error:
            refused = str(error)
        else:
            return True
    assert "\n" not in refused
    assert len(refused) < 600
    return False


def test_results_with_empty_columns_and_unknown_keys_are_shown(tmp_path: Path) -> None:
    raw = raw_result()
    raw["unknown"] = raw["records"][0]["unknown"] = {"x": [1]}
    for table in ("requests", "samples"):
        raw["records"][1][table] = {}
    assert is_shown(written(tmp_path, raw))
    raw["records"] = []
    assert not is_shown(written(tmp_path, raw))  # an empty result can be shown but not compared


def a_result() -> dict[str, Any]:
    """Return a small result as decoded JSON."""
    trace = Trace(
        server="1_a",
        title="A.",
        values={"task": "primes", "python": "3.11.7"},
        requests=TracedRequests([0.1], [0.2], ["1/a"], [[(0.1, 0.2, 0.1)]]),
    )
    records = [bare_record(), record_of("1_a"), bare_record(2), record_of("1_a", 2)]
    for record in records:
        for at_s in (0.5, 1.5, 2.5, 3.5):
            record.speed_samples.at_s.append(at_s)
            record.speed_samples.cpu.append(0)
            record.speed_samples.took_s.append(0.0001)
            record.cpu_times.at_s.append(at_s)
            record.cpu_times.busy_s.setdefault(0, []).append(at_s)
        record.machine = Machine(8.0, 4.2, 0.0)
    result = result_of(records)
    result.traces.append(trace)
    return json.loads(msgspec.json.encode(result))


def paths_in(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the paths of all values, but only of the first two elements and the last element of each list."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, one in value.items():
            found += paths_in(one, (*path, key))
    elif isinstance(value, list):
        for place in sorted({0, 1, len(value) - 1} & set(range(len(value)))):
            found += paths_in(value[place], (*path, place))
    return found


WHOLE = a_result()
CHANGES = st.tuples(st.sampled_from(paths_in(WHOLE)), st.sampled_from([*NUMBERS, "remove", "repeat", "negate"]))


def changed(raw: dict[str, Any], path: tuple[str | int, ...], how: Any) -> None:
    holder: Any = raw
    try:
        for key in path[:-1]:
            holder = holder[key]
        if how == "remove":
            del holder[path[-1]]
        elif how == "repeat":
            holder[path[-1]] = [holder[path[-1]]] * 3
        elif how == "negate":
            holder[path[-1]] = -holder[path[-1]]
        else:
            holder[path[-1]] = how
    except (LookupError, TypeError):
        return  # an earlier change removed the value, or it can't be negated


@EDITED
@given(st.lists(CHANGES, min_size=1, max_size=3))
def test_an_edited_result_is_shown_or_causes_a_one_line_error(tmp_path: Path, changes: list[Any]) -> None:
    raw = json.loads(json.dumps(WHOLE))
    for path, how in changes:
        changed(raw, path, how)
    is_shown(written(tmp_path, raw))


@pytest.mark.usefixtures("undrawn")
def test_an_unedited_result_is_shown_in_every_format(tmp_path: Path) -> None:
    assert is_shown(written(tmp_path, WHOLE), [*FORMATS, "html"])
