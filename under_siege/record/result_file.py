"""Read untrusted files within limits, check and sanitize them, and write files atomically."""

import contextlib
import errno
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from common.errors import BadInputError
from under_siege.record.secrets import masked, without_variables

if TYPE_CHECKING:  # a slow import that --help does not need
    import msgspec

T = TypeVar("T")

PEEKED_BYTES, MAX_BYTES = 4096, 1_000_000_000
# Limits of the values in untrusted files: larger than any measurement, but small enough to compute with.
LONGEST_S, LONGEST_CLOCK_S, LARGEST_INDEX, LARGEST = 1e6, 1e10, 10**6, 2**53
_TEMPORARY = ".under-siege-"
_MODE = 0o644  # permissions of a new file; mkstemp sets 0600
_MAX_LINKS = 40

# Control characters, characters that change the writing direction, other invisible characters (Unicode's Cc, Cf, Zl, Zp
# and Default_Ignorable_Code_Point), and surrogates, which UTF-8 can't encode.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_ILLEGIBLE = re.compile(f"[{_HIDDEN}]")
_MULTILINE_FIELDS = frozenset({"tool_report", "server_said"})
_IDENTITIES = frozenset({"server", "values"})  # fields that identify a case
_SOURCE_CODE = frozenset({"function", "file", "source"})  # fields of a profile, which contain code such as `key=len`

_NO_SERVER = "bare"  # the name of the ceiling up to schema 4
_RENAMED = {"siege_began_s": "load_began_s", "siege_s": "load_s"}  # old name: name since schema 5
_RENAMED |= {f"siege_{name}": f"tool_{name}" for name in ("command", "report", "unknown", "unknown_lines", "cpu_s")}
_INTEGER_AXES = ("users", "workers")
_TEXT_AXES = ("task", "python")
_OPTIONAL_COLUMNS = ("memory_bytes", "odd_bytes", "wrong_contents", "waited_s")  # columns that may be empty


class UnwritableError(BadInputError, OSError):
    """Raised if a file can't be written. The message is one line."""


def read_limited(path: Path, begins_with: bytes = b"", most_bytes: int = MAX_BYTES) -> bytes:
    """Return the contents of a file of at most `most_bytes`; treat a pipe without a writer as empty.

    Raises:
        OSError: the file can't be read.
        ValueError: the file is too large, or does not begin with `begins_with`.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
        os.set_blocking(file.fileno(), True)
        data = file.read(PEEKED_BYTES)
        if not data.lstrip().startswith(begins_with):
            raise ValueError(f"it does not begin with {begins_with.decode()!r}")
        data += file.read(most_bytes)
    if len(data) > most_bytes:
        raise ValueError(f"it is larger than {most_bytes:,} bytes")
    return data


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file atomically; write directly to a device or a pipe.

    Raises:
        UnwritableError: the file can't be written; the previous version is unchanged.
    """
    with _reported(path):
        target, is_replaceable = _target(path)
        if not is_replaceable:
            _append(target, data)
            return
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else _MODE
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=_TEMPORARY)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).chmod(mode)
            Path(name).replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise


def check_writable(path: Path) -> None:
    """Raise UnwritableError if `write_atomically` would fail now."""
    with _reported(path, "; try another file"):
        target, is_replaceable = _target(path)
        if is_replaceable:
            tempfile.NamedTemporaryFile(dir=target.parent, prefix=_TEMPORARY).close()
        else:
            _append(target, b"")


@contextlib.contextmanager
def _reported(path: Path, remedy: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnwritableError(f"{str(path)!r} can't be written: {error.strerror or error}{remedy}") from None


def is_pipe(path: Path) -> bool:
    """Return whether the path is a pipe or a socket, which can't be rewritten."""
    with contextlib.suppress(OSError):
        mode = path.stat().st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    return False


def _target(path: Path) -> tuple[Path, bool]:
    """Follow links; return the target, and whether it can be replaced (a device, pipe or file descriptor can't)."""
    for _ in range(_MAX_LINKS):
        if Path("/proc") in path.parent.resolve().parents:  # for example, the target of /dev/stdout or /dev/fd/63
            return path, False
        try:
            path = path.parent / path.readlink()
        except OSError:  # not a link
            break
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path, True
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return path, stat.S_ISREG(mode)


def _append(target: Path, data: bytes) -> None:
    handle = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY)  # fails if a pipe has no reader
    try:
        os.set_blocking(handle, True)
        while data:
            data = data[os.write(handle, data) :]
    finally:
        os.close(handle)


def legible(text: str, *, lines: bool = False) -> str:
    """Replace invisible characters with `\ufffd` and, unless `lines` is set, line breaks and tabs with spaces."""
    if text.isascii() and text.isprintable():
        return text
    return _ILLEGIBLE.sub("\ufffd", text.replace("\r\n", "\n") if lines else re.sub(r"[\t\n\r]+", " ", text))


def made_legible(value: T, *, lines: bool = False, mask: Callable[[str], str] = masked) -> T:
    """Return a copy of the value in which all strings, at any depth, are legible, and contain no secrets."""
    copy: Any = value
    if isinstance(value, str):
        copy = mask(legible(value, lines=lines))
    elif isinstance(value, dict):
        copy = {made_legible(key, mask=mask): made_legible(item, mask=mask) for key, item in value.items()}
    elif isinstance(value, list) and not (value and isinstance(value[0], int | float)):  # skip millions of numbers
        copy = [made_legible(item, mask=mask) for item in value]
    elif _is_struct(copy):
        fields = {name: getattr(copy, name) for name in copy.__struct_fields__}
        copy = type(copy)(**{name: _legible_field(name, field, mask) for name, field in fields.items()})
    return cast(T, copy)


def _legible_field(name: str, field: T, mask: Callable[[str], str]) -> T:
    if name in _IDENTITIES:
        mask = str
    elif name in _SOURCE_CODE:
        mask = without_variables
    return made_legible(field, lines=name in _MULTILINE_FIELDS, mask=mask)


def upgraded(result: dict[str, Any]) -> dict[str, Any]:
    """Convert a decoded result of schema 4 or older to the current schema, but keep the value of `schema`."""
    environment = result["environment"]
    environment["tools"] = {"siege": environment.pop("siege", "")}
    for record in result.get("records", []):
        record["values"] = {axis: record.pop(axis) for axis in ("task", "users", "python")}
        record["is_ceiling"] = record["server"] == _NO_SERVER
        record |= {new: record.pop(old) for old, new in _RENAMED.items() if old in record}
        transactions = record.get("transactions", {})
        if "siege_s" in transactions:
            transactions["took_s"] = transactions.pop("siege_s")
    for trace in result.get("traces", []):
        trace["values"] = {axis: trace.pop(axis) for axis in ("task", "python")}
    return result


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
