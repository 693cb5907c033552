"""What results of older versions said otherwise, said as it is said now."""

from typing import Any

_BARE = "bare"  # what stood for a server where there was none, up to schema 4
_RENAMED = {  # up to schema 4 there was no other load tool than siege
    "siege_began_s": "load_began_s",
    "siege_s": "load_s",
    "siege_command": "tool_command",
    "siege_report": "tool_report",
    "siege_unknown": "tool_unknown",
    "siege_unknown_lines": "tool_unknown_lines",
    "siege_cpu_s": "tool_cpu_s",
}


def upgraded(result: dict[str, Any]) -> dict[str, Any]:
    """The same result as if it had been written by this version; it keeps the number of its schema."""
    environment = result["environment"]
    environment["tools"] = {"siege": environment.pop("siege", "")}
    for record in result.get("records", []):
        record["values"] = {axis: record.pop(axis) for axis in ("task", "users", "python")}
        record["is_ceiling"] = record["server"] == _BARE
        record |= {new: record.pop(old) for old, new in _RENAMED.items() if old in record}
        transactions = record.get("transactions", {})
        if "siege_s" in transactions:
            transactions["took_s"] = transactions.pop("siege_s")
    for trace in result.get("traces", []):
        trace["values"] = {axis: trace.pop(axis) for axis in ("task", "python")}
    return result
