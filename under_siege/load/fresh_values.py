"""Find the placeholders in a request, and give them values that differ each time: {n}, {uuid}, {random:8} and {user}.

In a load with a setup, any other name, such as {token}, stands for a value that an answer of the setup contains.
"""

import json
import re
import secrets
import string
import time
import uuid
from collections.abc import Callable

from under_siege.load.body_rule import as_json
from under_siege.load.request import Load, Request
from under_siege.secrets import is_secret_name

FRESH = r"n|uuid|user|random:[1-9]\d?"
_FRESH = re.compile(rf"(?<!\$)\{{({FRESH})\}}", re.ASCII)  # `${n}` is an environment variable
_ANY = re.compile(rf"(?<!\$)\{{({FRESH}|[A-Za-z_][\w.-]*)\}}", re.ASCII)
_LETTERS = string.ascii_lowercase + string.digits
_LONGEST_EXAMPLE = 40  # characters of a value in a message
_EPOCH_US = 1_735_689_600 * 1_000_000  # 2025-01-01: numbers remain below 2^53, which JSON supports everywhere


class Numbers:
    """Numbers that grow, and that no other process and no later run uses: the time, and the digit of the process.

    The time counts microseconds. Nobody sends a million requests per second, so a number is never ahead of the time.
    """

    def __init__(self) -> None:
        self.digit = 0  # of the bench itself; its clients have other digits
        self._last_us = 0

    def next(self) -> int:
        self._last_us = max(self._last_us + 1, time.time_ns() // 1000 - _EPOCH_US)
        return self._last_us * 10 + self.digit


numbers = Numbers()


def fresh_value(name: str, user: int) -> str | None:
    """Return a new value for a placeholder, or None if the name is that of a value of the setup."""
    if name == "n":
        return str(numbers.next())
    if name == "user":
        return str(user)
    if name == "uuid":
        return str(uuid.uuid4())
    if name.startswith("random:"):
        return "".join(secrets.choice(_LETTERS) for _ in range(int(name.removeprefix("random:"))))
    return None


def replaced(text: str, value_of: Callable[[str], str], *, has_setup: bool) -> str:
    """Replace each placeholder in the text by `value_of` its name; without a setup, other braces are literal."""
    return (_ANY if has_setup else _FRESH).sub(lambda match: value_of(match[1]), text)


def names_in(text: str, *, has_setup: bool = False) -> list[str]:
    """Return the distinct names of the placeholders in the text."""
    return list(dict.fromkeys((_ANY if has_setup else _FRESH).findall(text)))


def names_in_request(path: str, request: Request, *, has_setup: bool = False) -> list[str]:
    """Return the distinct names of the placeholders in a request."""
    texts = [path, *(value for _, value in request.headers), body_text(request)]
    return names_in("\0".join(texts), has_setup=has_setup)


def differs_by_user(load: Load) -> bool:
    """Return whether users send different requests, so that their responses may differ, too."""
    sent = [(one.path, one.request) for one in load.mix] or [(load.path, load.request)]
    return bool(load.setup) or any("user" in names_in_request(*each) for each in sent)


def body_text(request: Request) -> str:
    """Return the body, or an empty string if it is not text."""
    try:
        return request.body.decode()
    except UnicodeDecodeError:
        return ""


def how_to_vary(request: Request) -> str:
    """Say how the request can be different each time."""
    body = as_json(request.body)
    texts = [(name, value) for name, value in body.items() if isinstance(value, str)] if isinstance(body, dict) else []
    example = next((f", such as {_varied(*each)}" for each in texts if not is_secret_name(each[0])), "")
    return (
        f"put {{n}}, which is another number each time, into the {'body' if example else 'path or the body'}{example}"
    )


def _varied(name: str, value: str) -> str:
    before, at, domain = value[:_LONGEST_EXAMPLE].partition("@")
    return f"{json.dumps(name)}: {json.dumps(f'{before}-{{n}}{at}{domain}', ensure_ascii=False)}"


def sample(body: bytes) -> bytes:
    """Return the body with a digit in place of each fresh value, to find out whether it is JSON."""
    return re.sub(_FRESH.pattern.encode(), b"1", body)
