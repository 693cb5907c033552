"""Read secrets from the environment, and mask them in everything that the bench shows or saves.

`${NAME}` in a header or a body stands for an environment variable. Masked text shows `${NAME}` instead of its value.
Values of headers with a name such as `Authorization` are masked, too, even if the suite file contains them.
"""

import json
import os
import re
from typing import Any
from urllib.parse import quote

from common.errors import BadInputError

MASK = "***"
SHORTEST = 4  # shorter values, such as "1", are not masked, because they also occur in unrelated text
_LONG_WORD = 8  # a word of a header, such as the token after `Bearer`, is masked by itself if it is this long

_VARIABLE = re.compile(r"(\$?)\$\{([A-Za-z_]\w*)\}", re.ASCII)
# The name starts where a word starts, and the number of characters is limited, so that matching takes linear time.
_NAME = (
    r"(?<![\w-])(?P<name>(?:proxy-)?authorization|(?:set-)?cookie|"
    r"[\w-]{0,60}?(?:token|secret|key)[\w-]{0,60}(?<!error))"
)
_SECRET_NAME = re.compile(_NAME, re.ASCII | re.IGNORECASE)
_NAMED_VALUES = [
    re.compile(f"{_NAME}{value}", re.ASCII | re.IGNORECASE)
    for value in (
        # 'name': 'value', ('name', 'value') or name = 'value'
        r"(?P<equals>(?:[\"']\s*,|[\"']?\s*[:=])\s*b?(?P<quote>[\"']))(?:(?!(?P=quote)).)+",
        r"(?P<equals>\s*:\s*)[^\s\"'][^\"'\n]*",  # name: value, to the end of the line
        r"(?P<equals>=)[^\s\"'&,;)]+",  # name=value
    )
]
_masks: dict[str, str] = {}  # what to show instead of each secret
_values_of_variables: set[str] = set()


def expanded(text: str, key: str) -> str:
    """Replace each `${NAME}` by the environment variable, and `$${NAME}` by `${NAME}`.

    Raises:
        BadInputError: a variable is not set, or is empty. The message begins with `key`.
    """

    def value_of(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        value, name = os.environ.get(match[2], ""), match[2]
        if not value:
            raise BadInputError(
                f"{key}: the environment variable {name} is not set; set it, or write $${{{name}}} to send ${{{name}}}"
            )
        _values_of_variables.add(value)
        for spelling in (value, json.dumps(value)[1:-1], repr(value)[1:-1], quote(value), quote(value, safe="")):
            _remember(spelling, f"${{{name}}}")
        return value

    return _VARIABLE.sub(value_of, text)


def expanded_json(value: Any, key: str) -> Any:
    """Return a copy of a JSON value in which all strings, except the names of fields, are expanded."""
    if isinstance(value, dict):
        return {name: expanded_json(item, key) for name, item in value.items()}
    if isinstance(value, list):
        return [expanded_json(item, key) for item in value]
    return expanded(value, key) if isinstance(value, str) else value


def expanded_file(contents: bytes, key: str) -> bytes:
    """Return the expanded contents of a file, or its unchanged contents if it is not text."""
    try:
        return expanded(contents.decode(), key).encode()
    except UnicodeDecodeError:
        return contents


def expanded_header(name: str, value: str, key: str) -> str:
    """Return the expanded value of a header, and mask it from now on if the name is that of a secret."""
    text = expanded(value, key)
    if re.search(r"[\r\n\0]", text) or not text.isascii():
        raise BadInputError(f"{key} = {masked(value)!r}: expected ASCII characters only, and no line breaks")
    if is_secret_name(name):
        for word in (text, *(word for word in text.split() if len(word) >= _LONG_WORD)):
            _remember(word, MASK)
    return text


def hide(secret: str) -> None:
    """Mask a secret of this run from now on."""
    _remember(secret, MASK)


def is_secret_name(name: str) -> bool:
    """Return whether the value of a header or a field with this name is always masked."""
    return _SECRET_NAME.fullmatch(name) is not None


def is_secret(name: str, value: str) -> bool:
    """Return whether other users of this machine must not see this header, for example in the list of processes."""
    return is_secret_name(name) or any(secret in value for secret in _values_of_variables)


def without_variables(text: str) -> str:
    """Return the text without the values of expanded variables and of secret headers of this run."""
    for secret in sorted(_masks, key=len, reverse=True):
        text = text.replace(secret, _masks[secret])
    return text


def masked(text: str) -> str:
    """Return the text without secrets, including everything that a secret name precedes, as in `token=7`."""
    text = without_variables(text)
    if _SECRET_NAME.search(text):
        for named in _NAMED_VALUES:
            text = named.sub(_without_value, text)
    return text


def _without_value(match: re.Match[str]) -> str:
    return f"{match['name']}{match['equals']}{MASK}"


def _remember(secret: str, mask: str) -> None:
    if len(secret) >= SHORTEST:
        _masks.setdefault(secret, mask)
