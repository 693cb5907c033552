"""Untrusted data: invalid files cause a one-line error; invalid output lines and headers are ignored."""

import json
import os
import re
import subprocess
import warnings
from pathlib import Path
from typing import Any

import msgspec
import pytest
from any_text import any_text
from conftest import TESTS
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from simulated_record import bare_record, record_of, result_of

from common.errors import BadInputError
from common.options import MOST_WORKERS
from under_siege.compare.diff import check_comparable, compare_results
from under_siege.compare.view import view
from under_siege.load.http_client import HttpResponse
from under_siege.load.siege import Siege
from under_siege.measure.warm_up import _workers_told
from under_siege.record import record as model
from under_siege.record import result as result_file
from under_siege.record.files import read_limited
from under_siege.record.record import Bursts, Machine, Samples, SpeedSamples, Trace, TracedRequests
from under_siege.record.result import SCHEMA, BadResultError, load, save
from under_siege.result_output import Report
from under_siege.show.formats import rendered
from under_siege.trace.trace_run import assumed_span, reported_spans

RESULT = TESTS / "data" / "schema-5.json"
FORMATS = ["table", "timeline", "markdown", "csv", "json"]
QUICK = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
NUMBERS = [0, -1, 1, 1e-12, 0.5, 1e6, 1e15, -1e15, 1e308, 10**30, None, "x", True, []]


def written(folder: Path, what: Any) -> Path:
    path = folder / "r.json"
    path.write_text(what if isinstance(what, str) else json.dumps(what))
    return path


def is_shown(path: Path, formats: list[str] = FORMATS) -> bool:
    """Return True if the result is shown, and False if a one-line error rejects it; otherwise, fail the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = load(path)
            for dress in formats:
                Report(result).formatted(dress)
            check_comparable(result, result, anyway=True)
            rendered(view(compare_results(result, result)), "markdown")
        except BadInputError as error:
            refused = str(error)
        else:
            return True
    assert "\n" not in refused
    assert len(refused) < 600
    return False


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"x":' * 200_000,
        '{"schema": 4, "records": ' + "[" * 200_000,
        '{"schema": 4, "x": ' + "[" * 200_000 + "]" * 200_000 + "}",
        '{"schema": 99}',
        '{"schema": 0}',
        '{"schema": -1}',
        "\x00\x01\x02",
        "",
        " ",
        "x" * 10_000,
    ],
    ids=lambda text: f"{text[:30]!r} and so on",
)
def test_an_invalid_result_causes_a_one_line_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadResultError) as refused:
        load(written(tmp_path, text))
    assert "\n" not in str(refused.value)


def test_an_unreadable_file_causes_a_one_line_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "missing", tmp_path / "pipe", Path("/dev/null"), Path("/dev/zero")):
        with pytest.raises(BadResultError) as refused:
            load(path)
        assert "\n" not in str(refused.value)


def test_a_result_written_by_a_later_version_causes_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadResultError, match="written by a later version"):
        load(written(tmp_path, {"schema": SCHEMA + 1}))


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, "{123}")
    assert read_limited(path, b"{", most_bytes=5) == b"{123}"
    with pytest.raises(ValueError, match="larger than 4 bytes"):
        read_limited(path, b"{", most_bytes=4)


def test_a_result_can_be_read_from_a_pipe() -> None:
    with subprocess.Popen(["cat", str(RESULT)], stdout=subprocess.PIPE) as writer:
        assert load(Path(f"/dev/fd/{writer.stdout.fileno()}")).records


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("load_s", 0),
        ("load_s", -4.0),
        ("load_s", 1e300),
        ("users", 0),
        ("users", -1),
        ("users", 10**12),
        ("round", 0),
        ("workers", -1),
        ("socket_failures", -1),
        ("answer_bytes", 10**40),
        ("time_s", -1),
        ("case_s", -1.0),
    ],
)
def test_the_error_names_the_field_with_an_impossible_value(field: str, value: float, tmp_path: Path) -> None:
    raw = json.loads(RESULT.read_text())
    holder = raw["records"][0]["values"] if field == "users" else raw["records"][0]
    holder[field] = value
    with pytest.raises(
        BadResultError,
        match=rf"not a valid result: records\[0\]\S*\.{field} is |Expected `\w+.* [<>]= .*\.{field}`|range",
    ):
        load(written(tmp_path, raw))


STRUCTS = [
    one
    for one in (vars(model) | vars(result_file)).values()
    if isinstance(one, type) and issubclass(one, msgspec.Struct)
]
AT_LEAST_ONE = {"round", "rounds", "workers", "usable_cpus", "cpus", "schema", "port_range", "tool_cpus"}
MINUS_ONE = {"user", "cpu", "alone_on_cpu", "answer_bytes"}  # -1 stands for unknown
# Fields that may be negative, for example times before the load began.
NEGATIVE = {"at_s", "due_s", "sent_s", "answered_s", "ended_s", "began_s", "seen_until_s", "fault_at_s", "alone_at_s"}
NEGATIVE |= {"busy_s", "steal_s", "idle_s", "load_began_s", "seen", "seed"}
DIVIDED_BY = {("RateStep", "arrivals_per_s"), ("Record", "load_s"), ("Bursts", "took_s")}


def bounds(struct: str, field: str) -> tuple[float, float]:
    """Return a number that is too small for the field, and a valid number."""
    if (struct, field) in DIVIDED_BY:
        return 0, 1
    if field in NEGATIVE:
        return -(10**306), -1
    least = 1 if field in AT_LEAST_ONE else -1 if field in MINUS_ONE else 0
    return least - 1, least


def test_every_number_of_a_result_is_rejected_outside_its_limits() -> None:
    fields = [(struct.__name__, field) for struct in STRUCTS for field in msgspec.structs.fields(struct)]
    looked_at = 0
    for struct, field in fields:
        if not re.search(r"\b(int|float)\b", str(field.type)) or field.name in ("values", "ran_s", "seed"):
            continue
        too_small, least = bounds(struct, field.name)
        holder = msgspec.defstruct("Holder", [("x", field.type)])
        for number, is_rejected in ((10**306, True), (too_small, True), (least, False)):
            shapes = {"dict[str": {"x": number}, "dict[int": {0: [number]}, "list": [number]}
            value = next((one for start, one in shapes.items() if str(field.type).startswith(start)), number)
            try:
                msgspec.convert({"x": value}, holder)
            except msgspec.ValidationError:
                assert is_rejected, (struct, field.name, number)
            else:
                assert not is_rejected, (struct, field.name, number)
        looked_at += 1
    assert looked_at > 90


@pytest.mark.parametrize(("table", "column"), [("transactions", "user"), ("pings", "problem"), ("samples", "at_s")])
def test_columns_of_different_lengths_cause_an_error(table: str, column: str, tmp_path: Path) -> None:
    raw = json.loads(RESULT.read_text())
    del raw["records"][0][table][column][-1]
    with pytest.raises(BadResultError, match=rf"records\[0\]\.{table} has columns of different lengths: "):
        load(written(tmp_path, raw))


def test_every_table_requires_columns_of_equal_length() -> None:
    """A table is a struct whose fields are all columns."""
    tables = 0
    for struct in STRUCTS:
        first, *others = msgspec.structs.fields(struct)
        if others and all(str(field.type).startswith(("list[", "dict[int, list")) for field in (first, *others)):
            empty = {field.name: {0: []} for field in others if str(field.type).startswith("dict")}
            (fault,) = result_file.inconsistencies(struct(**{first.name: [0.5], **empty}))
            assert "columns of different lengths" in fault
            tables += 1
    assert tables > 10


@pytest.mark.parametrize(
    ("struct", "lacking"), [(Samples, {"memory_bytes", "waited_s"}), (Bursts, {"odd_bytes", "wrong_contents"})]
)
def test_columns_whose_values_are_unknown_may_be_empty(struct: type, lacking: set[str]) -> None:
    columns = {field.name: [1] for field in msgspec.structs.fields(struct) if field.name not in lacking}
    assert [*result_file.inconsistencies(struct(**columns))] == []


@pytest.mark.parametrize(
    ("axis", "value", "fault"),
    [
        ("users", 1, None),
        ("users", 0, "x.users is out of range: 0"),
        ("workers", "two", "x.workers is not a number"),
        ("size", "two", None),
        ("size", -(2**53), None),
        ("size", -(2**53) - 1, "x.size is out of range: -9.0072e+15"),
    ],
)
def test_users_and_workers_must_be_numbers_and_numbers_must_be_in_range(axis: str, value: object, fault: str) -> None:
    assert next(result_file._axis_problems({axis: value}, "x"), None) == fault


@pytest.mark.parametrize(
    ("moments", "cpus", "is_rejected"), [([1, 2, 2], [0, 0, 0], False), ([1, 0], [0, 0], True), ([1, 0], [0, 1], False)]
)
def test_speed_samples_of_each_cpu_must_be_in_ascending_order(
    moments: list[float], cpus: list[int], is_rejected: bool
) -> None:
    faults = [*result_file.inconsistencies(SpeedSamples(moments, cpus, [0.1] * len(cpus)))]
    assert faults == [".at_s is not in ascending order"] * is_rejected


@pytest.mark.parametrize(
    ("stretch", "is_rejected"),
    [((0.1, 0.2, None), False), ((0.2, 0.1, 0.0), True), ((0.1, 0.2, -1.0), True), ((0.1, 1e9, 0.0), True)],
)
def test_task_spans_with_impossible_times_are_rejected(stretch: tuple, is_rejected: bool) -> None:
    traced = TracedRequests([0.1], [0.2], ["1/a"], [[stretch]])
    assert bool([*result_file.inconsistencies(traced)]) == is_rejected


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" * 5000], ids=lambda text: text[:9])
def test_numbers_that_are_not_finite_cause_an_error(number: str, tmp_path: Path) -> None:
    text = json.dumps(json.loads(RESULT.read_text())).replace('"load_s": 4.023191545999907', f'"load_s": {number}')
    assert number in text
    with pytest.raises(BadResultError):
        load(written(tmp_path, text))


def test_results_with_empty_columns_and_unknown_keys_are_shown(tmp_path: Path) -> None:
    raw = json.loads(RESULT.read_text())
    raw["unknown"] = raw["records"][0]["unknown"] = {"x": [1]}
    for table in ("transactions", "pings", "samples"):
        raw["records"][1][table] = {}
    assert is_shown(written(tmp_path, raw))
    raw["records"] = []
    assert not is_shown(written(tmp_path, raw))  # an empty result can be shown but not compared


def a_result() -> dict[str, Any]:
    """Return a small result in the current schema, as decoded JSON."""
    trace = Trace(
        server="1_a",
        title="A.",
        values={"task": "primes", "python": "3.11.7"},
        requests=TracedRequests([0.1], [0.2], ["1/a"], [[(0.1, 0.2, 0.1)]]),
    )
    records = [bare_record(), record_of("1_a"), bare_record(2), record_of("1_a", 2)]
    for record in records:
        for at_s in (0.5, 1.5, 2.5, 3.5):
            record.beats.at_s.append(at_s)
            record.beats.cpu.append(0)
            record.beats.took_s.append(0.0001)
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


@QUICK
@given(st.lists(CHANGES, min_size=1, max_size=3))
def test_an_edited_result_is_shown_or_causes_a_one_line_error(tmp_path: Path, changes: list[Any]) -> None:
    raw = json.loads(json.dumps(WHOLE))
    for path, how in changes:
        changed(raw, path, how)
    is_shown(written(tmp_path, raw))


OLD = [json.loads((TESTS / "data" / f"schema-{schema}.json").read_text()) for schema in (1, 2, 3, 4)]


@QUICK
@given(st.sampled_from(OLD), st.data())
def test_an_edited_result_of_an_older_version_is_shown_or_causes_a_one_line_error(
    tmp_path: Path, whole: dict, data: Any
) -> None:
    raw = json.loads(json.dumps(whole))
    for _ in range(2):
        changed(raw, data.draw(st.sampled_from(paths_in(whole))), data.draw(st.sampled_from([*NUMBERS, "remove"])))
    is_shown(written(tmp_path, raw))


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("task", "shown"), [("", True), ("other", True), (0, False)])
def test_the_task_of_an_old_result_must_be_text_but_may_be_empty(tmp_path: Path, task: object, shown: bool) -> None:
    raw = json.loads(json.dumps(OLD[3]))
    raw["records"][0]["task"] = task
    assert is_shown(written(tmp_path, raw), ["csv"]) == shown


@pytest.mark.usefixtures("undrawn")
def test_an_unedited_result_is_shown_in_every_format(tmp_path: Path) -> None:
    assert is_shown(written(tmp_path, WHOLE), [*FORMATS, "html"])


@pytest.mark.parametrize("words", [["report", "r.json"], ["compare", "r.json", "r.json"]], ids=["report", "compare"])
def test_commands_reject_an_invalid_result_with_a_one_line_error(words: list[str], run_cli, tmp_path: Path) -> None:
    written(tmp_path, "[" * 200_000)
    ran = run_cli(*words)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1), ran.stderr


LINE = "   4,HTTP/1.1,200,  0.28,      5,/,0,2026-11-20 04:48:55"


@settings(QUICK, max_examples=100)
@given(
    any_text() | st.builds(lambda at, what: LINE[:at] + what + LINE[at + 1 :], st.integers(0, len(LINE)), any_text())
)
@example("1,HTTP/1.1,200,1.2.3,5,/,0,2026-11-20 04:48:55")
@example(f"1,HTTP/1.1,200,0.1,{'9' * 5000},/,0,2026-11-20 04:48:55")
@example("\u0664,HTTP/1.1,200,0.1,5,/,0,2026-11-20 04:48:55")
@example("1,HTTP/1.1,\u00b2,0.1,5,/,0,2026-11-20 04:48:55")
def test_any_line_of_siege_is_parsed_or_ignored(line: str) -> None:
    found = Siege().parse_line(line)
    assert found is None or (found.user >= 0 and found.took_s < 1e6 and found.size_bytes < 10**15)
    assert Siege().failures(f"Failed transactions: {line}", []) >= 0


HEADERS = any_text() | st.text("0123456789/.- e;=,taskdurinf\u00b2", max_size=60)


@settings(QUICK, max_examples=100)
@given(HEADERS)
@example("nan nan/nan/nan")
@example("5 1/2/inf")
@example("5 1/2/-1")
@example("5 0/1e400/1")
def test_an_impossible_x_ran_header_is_ignored(header: str) -> None:
    for since, to, cpu_s in reported_spans(HttpResponse(200, b"", {"x-ran": header}), 4.0, 8.0):
        assert 3.9 < since <= to < 8.1
        assert 0 <= cpu_s < 1e7


@settings(QUICK, max_examples=100)
@given(HEADERS)
@example("task;dur=1.2.3")
@example("task;dur=99999999999999999999")
@example("task;dur=\u0661")
def test_an_impossible_duration_in_a_server_timing_header_is_limited_to_that_of_the_request(header: str) -> None:
    for since, to, _ in assumed_span(HttpResponse(200, b"", {"server-timing": header}), 4.0, 8.0):
        assert 4.0 <= since <= to == 8.0


@settings(QUICK, max_examples=100)
@given(HEADERS)
@example("100000000")
@example("\u00b2")
@example("\u0663")
@example("9" * 5000)
def test_an_impossible_number_of_workers_in_a_response_header_is_ignored(header: str) -> None:
    told = _workers_told(HttpResponse(200, b"", {"x-workers": header}))
    assert told is None or 1 <= told <= MOST_WORKERS


def test_a_saved_result_can_be_loaded(tmp_path: Path) -> None:
    save(result_of([record_of("1_a", load_s=None), bare_record()]), tmp_path / "r.json")
    assert load(tmp_path / "r.json").records
