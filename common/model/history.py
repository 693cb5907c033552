"""What results of older versions said otherwise, said as it is said now."""

from typing import Any

_BARE = "bare"  # what stood for a server where there was none, up to schema 4


def upgraded(result: dict[str, Any]) -> dict[str, Any]:
    """The same result as if it had been written by this version; it keeps the number of its schema."""
    for record in result.get("records", []):
        record["values"] = {axis: record.pop(axis) for axis in ("task", "users", "python")}
        record["is_ceiling"] = record["server"] == _BARE
    for trace in result.get("traces", []):
        trace["values"] = {axis: trace.pop(axis) for axis in ("task", "python")}
    return result
