"""Read logs in JSON, such as those of structlog and python-json-logger, as the text of a plain log."""

import json
from collections.abc import Iterator
from typing import Any

HEAD = "Traceback (most recent call last)"
_MESSAGES = ("event", "message", "msg", "text")  # keys of the message, in the usual libraries


def plain(output: str) -> str:
    """Replace each line that is a JSON object with its message and, below it, the traceback that it contains."""
    return "\n".join(map(_plain_line, output.split("\n"))) if "{" in output else output


def _plain_line(line: str) -> str:
    try:
        fields = json.loads(line) if line.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return line
    if not isinstance(fields, dict):
        return line
    texts = list(_texts(fields))
    message = next((fields[key] for key in _MESSAGES if isinstance(fields.get(key), str)), " ".join(texts))
    return "\n".join(dict.fromkeys([message, *(text for text in texts if HEAD in text)]))


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in a value; structlog's structured exceptions as the end of a traceback."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict) and "exc_type" in value:
        yield f"{HEAD}:\n{value['exc_type']}: {value.get('exc_value', '')}"
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
