"""Define the result of a run, and load and save result files, which contain only raw values.

A result file is JSON. It is compressed with gzip if its name ends in `.gz`. While a run goes on, each item that it
adds is appended as another line; at the end, the file is written as a whole.
"""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from common.errors import BadInputError
from under_siege.formatting import legible
from under_siege.paths import PROGRAM
from under_siege.record.case import PACES, Case, Value, case_of
from under_siege.record.files import GZIP, append, decompressed, read_limited, write_atomically
from under_siege.record.record import (
    LONGEST_CLOCK_S,
    Cpus,
    Incident,
    PacedRun,
    Positive,
    Profile,
    RateStep,
    Record,
    Share,
    Trace,
)
from under_siege.record.requests import LARGEST, LARGEST_INDEX, LONGEST_S, Count
from under_siege.secrets import masked, masked_code

T = TypeVar("T")

SCHEMA = 6
_MULTILINE_FIELDS = frozenset({"tool_report", "server_said", "diff", "def_diff"})  # they keep their tabs
_IDENTITIES = frozenset({"server", "values"})  # fields that identify a case
_SOURCE_CODE = frozenset({"function", "file", "source", "diff", "def_diff"})  # fields with code such as `key=len`
_INTEGER_AXES = ("users", "workers")
_TEXT_AXES = ("task", "python", *PACES)
_OPTIONAL_COLUMNS = (
    "events_s",
    "memory_bytes",
    "odd_bytes",
    "wrong_contents",
    "waited_s",
    "requests",
    "first_us",
    "gaps_us",
)  # columns that may be empty


class BadResultError(BadInputError):
    """Raised for a file that is not a valid result. The message is one line."""


class Required(msgspec.Struct, frozen=True):
    """A requirement that the cases of a result, except the ceiling, must meet. `judge/goal.py` parses its text."""

    text: str  # such as `ping p99 < 50ms`
    server: str = ""  # empty: applies to all servers


class SkippedServer(msgspec.Struct, frozen=True):
    """A server that was skipped, because it can't run with this Python or accepts no jobs."""

    server: str
    title: str
    python: str
    reason: str  # why the server was skipped, and a remedy


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and the software versions."""

    cpu_model: str
    cpus: Positive
    usable_cpus: Positive  # number of CPUs that the servers may use
    load_cpus: Count = 0  # CPUs that only the load tool and the bench could use; 0: they shared those of the servers
    cpu_limit: Cpus | None = None  # such as 0.5, if a cgroup quota limits the bench
    memory_bytes: Count
    system: str
    pythons: dict[str, str]  # by version: the build
    packages_of: dict[str, dict[str, str]] = {}  # by Python version: the servers' packages and their versions
    tools: dict[str, str] = {}  # versions of the load tools
    commit: str
    # Python version and work per sample, such as `3.11.7 500+1500`. Only samples of the same kind can be compared.
    speed_probe: str = msgspec.field(default="", name="metronome")

    @property
    def available_cpus(self) -> float:
        """Return how many CPUs the servers could use, such as 0.5 if the bench has a cgroup quota."""
        return self.cpu_limit or self.usable_cpus


class MovedRoute(msgspec.Struct, frozen=True, kw_only=True):
    """The route of an application that some servers of a comparison answer in threads or in processes."""

    path: str
    server: str  # the server on which the strategies are compared
    is_chosen: bool = False  # whether the user asked for strategies
    function: str = ""  # name of the function that answers the requests; empty if it is unknown
    file: str = ""
    line: Count = 0  # line of its `def`
    diff: list[str] = []  # a change of the source code that moves it to a process pool
    unmovable: str = ""  # why there is no such change
    def_diff: list[str] = []  # a change of the source code with which the framework runs it in a thread
    needs_await: str = ""  # why there is no such change


class MeasuredSuite(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the suite that are needed to interpret the result."""

    title: str
    source: str = ""  # path of the suite file
    checked: str = ""  # description of the comparison; empty if every byte was compared
    request: str = ""  # method, and type and size of the body; empty for a plain GET
    ping: str = ""  # path of the health check; empty if there is none
    against: str = ""  # the base revision; empty unless two revisions are compared
    tolerance: Share = 0.0  # by which share a metric of the new revision may be worse
    choices: list[str] = []  # what was chosen for the user, such as packages that were added, or settings set aside
    route: MovedRoute | None = None  # None: no server answers a route elsewhere


class PlannedCase(msgspec.Struct, frozen=True):
    """A case that a run measures."""

    server: str
    values: dict[str, Value]

    @property
    def case(self) -> Case:
        return case_of(self.server, self.values)


class _Header(msgspec.Struct):
    schema: int


class Result(msgspec.Struct, kw_only=True):
    """The result of a run: its settings and all raw values."""

    environment: Environment
    suite: MeasuredSuite | None = None  # None: the demo servers
    command: list[str]
    began_at: str
    seed: int
    rounds: Positive  # planned or maximum number of rounds; `records` may cover fewer
    until_certain: bool = False  # whether the run added rounds until the result was clear
    requirements: list[Required] = []
    tool_choice: str = ""  # why another load tool replaced the default
    users_choice: str = ""  # the number of users and why it was chosen, unless it is the default or was given
    records: list[Record] = []
    traces: list[Trace] = []
    profiles: list[Profile] = []
    incidents: list[Incident] = []
    steps: list[RateStep] = []
    paced: list[PacedRun] = []  # of `run`, beside the records under full load
    left_out: list[SkippedServer] = []
    planned: list[PlannedCase] = []  # of a run that has not ended, or was interrupted
    schema: Positive = SCHEMA

    def unmeasured(self) -> list[Case]:
        """Return the cases that a run had not measured yet when it was interrupted."""
        seen = {record.case for record in self.records} | {step.case for step in self.steps}
        seen |= {case_of(incident.server, incident.values) for incident in self.incidents}
        return [each.case for each in self.planned if each.case not in seen]


Item = Record | Trace | Profile | Incident | RateStep | PacedRun


class Items(msgspec.Struct, omit_defaults=True):
    """What a run adds to its result; the fields are those of a result."""

    records: list[Record] = []
    traces: list[Trace] = []
    profiles: list[Profile] = []
    incidents: list[Incident] = []
    steps: list[RateStep] = []
    paced: list[PacedRun] = []

    @classmethod
    def of(cls, item: Item) -> "Items":
        """Return a single item."""
        names = {Record: "records", Trace: "traces", Profile: "profiles"}
        names |= {Incident: "incidents", RateStep: "steps", PacedRun: "paced"}
        items = cls()
        getattr(items, names[type(item)]).append(item)
        return items

    def add_to(self, result: Result) -> None:
        """Add the items to the lists of a result."""
        for name in self.__struct_fields__:
            getattr(result, name).extend(getattr(self, name))


class GrowingFile:
    """The file of a result to which a run adds items: a line with the result, and a line for each item added later."""

    def __init__(self, path: Path) -> None:
        self._path, self._bytes = path, -1

    def save(self, result: Result, added: Items) -> None:
        """Append what was added to the result; write the whole result if the file does not contain the rest of it.

        Raises:
            UnwritableError: the file can't be written, or only a part of its last line.
        """
        line = msgspec.json.encode(added) + b"\n"
        if append(self._path, line, self._bytes):
            self._bytes += len(line)
        else:
            data = msgspec.json.encode(result) + b"\n"
            write_atomically(self._path, data)
            self._bytes = len(data)


def save(result: Result, path: Path) -> None:
    """Write the result; compress it if the name of the file ends in `.gz`.

    Raises:
        UnwritableError: the file can't be written; the previous version is unchanged.
    """
    data = msgspec.json.encode(result)
    write_atomically(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def load(path: Path) -> Result:
    """Read a result, which may be compressed.

    Raises:
        BadResultError: the file can't be read, is not a result, or has another schema.
    """
    try:
        data, added = _parts(decompressed(read_limited(path, (b"{", GZIP))))
        schema = msgspec.json.decode(data, type=_Header).schema
        if schema != SCHEMA:
            raise BadResultError(f"{path}: schema {schema}: expected {SCHEMA}; repeat the run with this version")
        result = msgspec.json.decode(data, type=Result)
        for items in msgspec.json.Decoder(Items).decode_lines(added):
            items.add_to(result)
    except OSError as error:
        raise BadResultError(f"{path}: {error.strerror}") from None
    except BadResultError:
        raise
    except (msgspec.DecodeError, ValueError) as error:
        raise BadResultError(f"{path}: not a result of {PROGRAM} run: {error}") from None
    except RecursionError:
        raise BadResultError(f"{path}: not a result of {PROGRAM} run: too many nested brackets") from None
    if problem := next(inconsistencies(result), ""):
        raise BadResultError(f"{path}: not a valid result: {problem}")
    return made_legible(result)


def _parts(data: bytes) -> tuple[bytes, bytes]:
    """Return the JSON of a result, and the complete lines that a run that did not end has appended to it."""
    first, _, added = data.partition(b"\n")
    is_growing = first.endswith(b"}") and bool(added)
    return (first, added[: added.rfind(b"\n") + 1]) if is_growing else (data, b"")


def made_legible(value: T, *, lines: bool = False, mask: Callable[[str], str] = masked) -> T:
    """Return a copy of the value in which all strings, at any depth, are legible, and contain no secrets."""
    copy: Any = value
    if isinstance(value, str):
        copy = legible(mask(value), lines=lines)
    elif isinstance(value, dict):
        copy = {made_legible(key, mask=mask): made_legible(item, mask=mask) for key, item in value.items()}
    elif isinstance(value, list) and not (value and isinstance(value[0], int | float)):  # skip millions of numbers
        copy = [made_legible(item, lines=lines, mask=mask) for item in value]
    elif _is_struct(copy):
        fields = {name: getattr(copy, name) for name in copy.__struct_fields__}
        copy = type(copy)(**{name: _legible_field(name, field, mask) for name, field in fields.items()})
    return cast(T, copy)


def _legible_field(name: str, field: T, mask: Callable[[str], str]) -> T:
    if name in _IDENTITIES:
        mask = str
    elif name in _SOURCE_CODE:
        mask = masked_code
    return made_legible(field, lines=name in _MULTILINE_FIELDS, mask=mask)


def inconsistencies(struct: "msgspec.Struct", path: str = "") -> Iterator[str]:
    """Yield a message for each value that has the correct type but is invalid.

    Args:
        path: the field in the result that holds the struct, such as `records[0]`.
    """
    fields = {name: getattr(struct, name) for name in struct.__struct_fields__}
    if all(isinstance(value, list | dict) for value in fields.values()):
        yield from _table_problems(fields, path)
    for name, value in fields.items():
        field_path = f"{path}.{name}".lstrip(".")
        if name == "values":
            yield from _axis_problems(value, field_path)
        elif name == "ran_s":
            yield from _span_problems(value, field_path)
        elif _is_struct(value):
            yield from inconsistencies(value, field_path)
        elif isinstance(value, list) and value and _is_struct(value[0]):
            for index, item in enumerate(value):
                yield from inconsistencies(item, f"{field_path}[{index}]")


def _is_struct(value: object) -> bool:
    return hasattr(value, "__struct_fields__")


def _table_problems(columns: dict[str, list[Any] | dict[int, list[Any]]], path: str) -> Iterator[str]:
    lengths = [
        (name, len(part))
        for name, column in columns.items()
        for part in (column.values() if isinstance(column, dict) else [column])
        if part or name not in _OPTIONAL_COLUMNS
    ]
    if len({length for _, length in lengths}) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths)
        yield f"{path} has columns of different lengths: {listed[:200]}"
    last_s: dict[int, float] = {}
    times_s = columns.get("at_s", [])
    for at_s, cpu in zip(times_s, columns.get("cpu", [0] * len(times_s)), strict=False):
        if at_s < last_s.get(cpu, at_s):
            yield f"{path}.at_s is not in ascending order"
            return
        last_s[cpu] = at_s


def _axis_problems(values: dict[str, Any], path: str) -> Iterator[str]:
    for axis, value in values.items():
        low, high = (1, LARGEST_INDEX) if axis in _INTEGER_AXES else (-LARGEST, LARGEST)
        if axis in _INTEGER_AXES and not isinstance(value, int):
            yield f"{path}.{axis} is not a number"
        elif axis in _TEXT_AXES and not isinstance(value, str):
            yield f"{path}.{axis} is not a string"
        elif isinstance(value, int) and not low <= value <= high:
            yield f"{path}.{axis} is out of range: {_short(value)}"


def _span_problems(requests: list[list[tuple[float, float, float | None]]], path: str) -> Iterator[str]:
    for start_s, end_s, cpu_s in (span for request in requests for span in request):
        if not -LONGEST_S <= start_s <= end_s <= LONGEST_S or not 0 <= (cpu_s or 0) <= LONGEST_S:
            yield f"{path} has an invalid span from {_short(start_s)} to {_short(end_s)}"
            return


def _short(number: float) -> str:
    return f"{number:.6g}" if abs(number) < LONGEST_CLOCK_S**2 else "huge"
