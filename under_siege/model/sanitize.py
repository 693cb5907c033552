"""Texts of strangers without what a terminal, a page or a picture would obey, or a reader not see.

What a server, a task or a file says goes through here where it enters a result: when a record is kept, and when a file
is loaded. What is shown then is what it is.
"""

import re
from typing import Any, TypeVar

T = TypeVar("T")

# Control characters, those of the direction of writing and other invisible ones (Unicode's Cc, Cf, Zl and Zp, and
# Default_Ignorable_Code_Point), and surrogates, which no encoding can write.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_ILLEGIBLE = re.compile(f"[{_HIDDEN}]")
_PAGES = frozenset({"tool_report", "server_said"})  # the fields that have several lines


def legible(text: str, *, lines: bool = False) -> str:
    """One line, or several, in which every character can be seen; what could not is a `\ufffd`."""
    if text.isascii() and text.isprintable():
        return text
    if lines:
        return _ILLEGIBLE.sub("\ufffd", text.replace("\r\n", "\n"))
    return _ILLEGIBLE.sub("\ufffd", re.sub(r"[\t\n\r]+", " ", text))


def made_legible(value: T) -> T:
    """The same value with all texts in it legible, as far down as there are any."""
    made: T = _made_legible(value, lines=False)
    return made


def _made_legible(value: Any, *, lines: bool) -> Any:
    if isinstance(value, str):
        return legible(value, lines=lines)
    if isinstance(value, dict):
        return {_made_legible(key, lines=False): made_legible(one) for key, one in value.items()}
    if isinstance(value, list):  # of numbers there may be millions, and all are of one kind
        return value if value and isinstance(value[0], int | float) else _column(value)
    if names := getattr(value, "__struct_fields__", ()):  # of msgspec, which takes a while to load
        return type(value)(**{name: _made_legible(getattr(value, name), lines=name in _PAGES) for name in names})
    return value


def _column(values: list[Any]) -> list[Any]:
    """Most of many texts are the same."""
    if not all(isinstance(one, str) for one in values):
        return [made_legible(one) for one in values]
    known = {one: legible(one) for one in set(values)}
    return [known[one] for one in values]
