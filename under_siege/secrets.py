"""Read secrets from the environment, and mask them in everything that the bench shows or saves.

`${NAME}` in a header, a body or a path stands for an environment variable. Masked text shows `${NAME}` instead of its
value. The values of headers, fields and keys with a name such as `Authorization` or `password` are masked, too, even if
the suite file contains them, and so are passwords in URLs.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from common.errors import BadInputError

MASK = "***"
SHORTEST = 4  # shorter values, such as "1", are not masked, because they also occur in unrelated text
_LONG_WORD = 8  # a word of a header, such as the token after `Bearer`, is masked by itself if it is this long

_VARIABLE = re.compile(r"(\$?)\$\{([A-Za-z_]\w*)\}", re.ASCII)
_PLACEHOLDER = re.compile(r"\$?\{[\w.:-]+\}", re.ASCII)
# What a message shows as the value of a secret name, because it stands for another value.
_KEPT = re.compile(r"(?:Bearer |Basic )?\$?\$\{[A-Za-z_]\w*\}|(?:Bearer |Basic )\{[\w.]+\}", re.ASCII)

# `token`, `secret` and `key` make a name secret wherever they occur in it. These words do so only as whole words, as in
# `db_password`, `dbPassword`, `DB_PASSWORD` and `password2`; `author` is none of them.
_WORDS = (
    "authorization|cookie|password|passwd|passphrase|pwd|pgpassword|credentials?|jwt|auth|signature|sig|session|"
    "sessionid|jsessionid|phpsessid"
)
# A word may follow an encoded bracket, a line break in a literal, or a colour, as loggers print them.
_BEGIN = r"(?:(?<![A-Za-z])|(?<=%5[Bb])|(?<=\\[nrt])|(?<=[\[;]\dm)|(?<=[\[;]\d\dm))"
# Possessive quantifiers and limited lengths let matching take linear time.
_NAME = re.compile(
    rf"(?:(?i:token|secret|key)|(?:{_BEGIN}(?:{_WORDS})|(?:{_WORDS.title()}))(?![a-z])"
    rf"|{_BEGIN}(?:{_WORDS.upper()})(?![A-Za-z]))"
    r"[\w-]{0,60}+(?<![Ee]rror)(?<![Ee]xception)(?<![Ww]arning)",
    re.ASCII,
)
_HINT = re.compile("token|secret|key|auth|cookie|passw|passphrase|pwd|credential|jwt|sig|sess")  # of a name; it is fast
_BEFORE_NAME = re.compile(r"[\w-]{0,60}\Z", re.ASCII)
_LONGEST_BEFORE = 60

# Passwords in URLs, and the user of a web address, which may be a token: `https://TOKEN@github.com/`.
_USER_INFO = (
    re.compile(r"""(:(?:\\?/){2}[^\s/?#@:"'<>\\]*+:)([^\s/?#"'<>]+)@"""),
    re.compile(r"""((?i:https?):(?:\\?/){2})([^\s/?#@:"'<>\\]++)@"""),
)

_masks: dict[str, str] = {}  # what to show instead of each secret; longer secrets come first
_values_of_variables: set[str] = set()


def expanded(text: str, key: str, spelled: Callable[[str], str] = str) -> str:
    """Replace each `${NAME}` by the environment variable, and `$${NAME}` by `${NAME}`.

    Args:
        key: where the user wrote the text, for a message.
        spelled: how to write the value of a variable.

    Raises:
        BadInputError: a variable is not set, or is empty.
    """

    def value_of(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        value, name = os.environ.get(match[2], ""), match[2]
        if not value:  # no colon after the key, because everything after `load.headers.Authorization:` is masked
            raise BadInputError(
                f"{key} names the environment variable {name}, which is not set; set it, or write $${{{name}}} to send "
                f"${{{name}}}"
            )
        _values_of_variables.add(value)
        for spelling in (
            value,
            json.dumps(value)[1:-1],
            repr(value)[1:-1],
            quote(value),
            quote(value, safe=""),
            quote_plus(value),
        ):
            _remember(spelling, f"${{{name}}}")
        return spelled(value)

    return _VARIABLE.sub(value_of, text)


def expanded_path(path: str, key: str) -> str:
    """Return the expanded path of a URL, in which values are percent-encoded, so that a server decodes them."""
    return expanded(path, key, lambda value: quote(value, safe=""))


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
            if not _PLACEHOLDER.fullmatch(word):
                _remember(word, MASK)
    return text


def hide(secret: str) -> None:
    """Mask a secret of this run from now on."""
    _remember(secret, MASK)


def is_secret_name(name: str) -> bool:
    """Return whether the value of a header or a field with this name is always masked."""
    return _NAME.search(name) is not None


def is_secret(name: str, value: str) -> bool:
    """Return whether other users of this machine must not see this header, for example in the list of processes."""
    return is_secret_name(name) or any(secret in value for secret in _values_of_variables)


def has_secret(text: str) -> bool:
    """Return whether other users of this machine must not see this text, for example a URL in the list of processes."""
    return masked(text) != text or any(secret in text for secret in _values_of_variables)


def without_variables(text: str) -> str:
    """Return the text without the values of expanded variables and of secret headers of this run."""
    for secret, mask in _masks.items():
        if secret in text:
            text = text.replace(secret, mask)
    return text


def masked(text: str) -> str:
    """Return the text without secrets, including everything that a secret name precedes, as in `token=7`."""
    return _without_values(_without_users(without_variables(text)))


def masked_code(text: str) -> str:
    """Return source code without the secrets in its string literals; `key=len` is none."""
    return _without_values(_without_users(without_variables(text)), forms=_FORMS[:2])


def masked_template(path: str) -> str:
    """Return a path without secrets, but with its placeholders, such as `{size}`."""
    return _without_values(path, kept=_PLACEHOLDER)


def masked_difference(one: str, other: str) -> str:
    """If two texts differ, but are equal once they are masked, return the name of the first value that differs."""
    if one == other or masked(one) != masked(other):
        return ""
    values = ([(name, text[begin:end]) for name, begin, end in _values(text)] for text in (one, other))
    names = [name for (name, value), (_, right) in zip(*values, strict=False) if value != right]
    return names[0] if names else "a password"


def _remember(secret: str, mask: str) -> None:
    if len(secret) >= SHORTEST and secret not in _masks:
        _masks[secret] = mask
        for each in sorted(_masks, key=len, reverse=True):
            _masks[each] = _masks.pop(each)


def _without_users(text: str) -> str:
    """Return the text without the passwords and tokens before the `@` of URLs."""
    if "@" in text:
        for pattern in _USER_INFO:
            text = pattern.sub(lambda url: url[0] if _VARIABLE.fullmatch(url[2]) else f"{url[1]}{MASK}@", text)
    return text


def _without_values(text: str, **options: Any) -> str:
    """Return the text without the values that `_values` yields."""
    parts, done = [], 0
    for _, begin, end in _values(text, **options):
        parts += [text[done:begin], MASK]
        done = end
    return "".join([*parts, text[done:]]) if parts else text


def _values(
    text: str, *, kept: re.Pattern[str] = _KEPT, forms: "Sequence[_Form] | None" = None
) -> Iterator[tuple[str, int, int]]:
    """Yield the name, the begin and the end of each secret value, except values that match `kept`."""
    place = 0 if _HINT.search(text.lower()) else len(text)
    while name := _NAME.search(text, place):
        place = name.end()
        first = _begin_of(name)
        for before, end_of in forms or _FORMS:
            if separator := before.match(text, name.end()):
                begin, end = separator.end(), end_of(separator, first)
                is_masked = text.startswith(MASK, begin) or kept.fullmatch(text, begin, end)
                if begin < end and not is_masked and not _is_count(name[0], text[begin - 1 : end]):
                    yield text[first : name.end()], begin, end
                    place = end
                break


def _begin_of(name: re.Match[str]) -> int:
    """Return where the whole name begins, such as `db_password`, whose end the match is."""
    before = _BEFORE_NAME.search(name.string, max(0, name.start() - _LONGEST_BEFORE), name.start())
    return before.start() if before else name.start()


def _is_count(name: str, value: str) -> bool:
    """Return whether the value, which follows a character, is a number of things, as in `"total_tokens": 57`."""
    return name.lower().endswith(("tokens", "keys", "secrets")) and value[0] not in "\"'" and value[1:].isdecimal()


# How a value may follow a name: what stands between them, and a function that returns the end of the value, given the
# match of what stands between, and where the name begins. The first form that matches applies.
_Form = tuple[re.Pattern[str], Callable[[re.Match[str], int], int]]


def _ends_before(pattern: str) -> Callable[[re.Match[str], int], int]:
    """Return a function for values that end before the pattern, or at the end of the text."""
    compiled = re.compile(rf"{pattern}|\Z")

    def end_of(separator: re.Match[str], _: int) -> int:
        match = compiled.search(separator.string, separator.end())
        return match.start() if match else len(separator.string)

    return end_of


def _consists_of(pattern: str) -> Callable[[re.Match[str], int], int]:
    """Return a function for values that consist of the pattern."""
    compiled = re.compile(pattern)

    def end_of(separator: re.Match[str], _: int) -> int:
        match = compiled.match(separator.string, separator.end())
        return match.end() if match else separator.end()

    return end_of


_IN_QUOTES = {mark: _consists_of(rf"(?:[^\\\n{mark}]|\\.)*+") for mark in "\"'"}
_FIRST_OF_PAIR = re.compile(
    r"(?:\(|(?<!= )\[)\s*+[bBfFrRuU]{0,2}\\*[\"'][\w.-]*+\Z", re.ASCII
)  # not the first of a list
_BRACKETS = re.compile(r"[\[({]|[\])}]|\"(?:[^\"\\]|\\.)*+\"?|'(?:[^'\\]|\\.)*+'?", re.DOTALL)
_BARE = r"[^\s\"'&,;)]*+(?:[,;)'](?=[A-Za-z0-9])[^\s\"'&,;)]*+)*+"  # `7` in `f(token=7, b=8)`, `a,b` in `token=a,b&c=1`
_REST_OF_BARE = re.compile(_BARE)
_LINE_END = r"\r?\n|\\r\\n"
_IN_LINE = {mark: _ends_before(f"{_LINE_END}|{mark}") for mark in "\"'"} | {"": _ends_before(_LINE_END)}


def _quoted(separator: re.Match[str], _: int) -> int:
    mark = separator["quote"]
    if len(mark) > 1:  # JSON in a string has escaped quotation marks
        return _ends_before(rf"(?<!\\){re.escape(mark)}")(separator, _)
    return _IN_QUOTES[mark](separator, _)


def _second_of_pair(separator: re.Match[str], first: int) -> int:
    is_pair = _FIRST_OF_PAIR.search(separator.string, max(0, first - _LONGEST_BEFORE), first)
    return _quoted(separator, first) if is_pair else separator.end()


def _bracketed(separator: re.Match[str], _: int) -> int:
    depth, text = 0, separator.string
    for token in _BRACKETS.finditer(text, separator.end()):
        depth += (token[0] in "[({") - (token[0] in "])}")
        if depth == 0 and token[0] in "])}":
            rest = _REST_OF_BARE.match(text, token.end())
            return rest.end() if rest and separator[0].endswith("=") else token.end()
    return len(text)


def _after_colon(separator: re.Match[str], first: int) -> int:
    """Return the end of the line, or of the quoted text that the name begins, as in `"-H", "Authorization: Bearer 7"`.

    After the end of a URL, such as `/session`, and after a server or an axis of a suite, the colon begins a message.
    """
    text = separator.string
    if text.endswith(("/", "servers.", "axes."), 0, first):
        return separator.end()
    return _IN_LINE.get(text[max(0, first - 1) : first], _IN_LINE[""])(separator, first)


# A name may end with a bracket, as in `user[password]=7`, a quotation mark, which may be escaped, or a colour.
_COLOUR = r"[\x1b\ufffd]\[[\d;]{0,20}m"
_CLOSE = rf"(?:\\*[\"'\]]|%5[Dd]|{_COLOUR}){{0,4}}+"
_QUOTE = r"(?P<quote>\\*[\"'])"
_NEW_LINE = r"(?:\r?\n|\\r\\n)"
_COLOURS = f"(?:{_COLOUR}){{0,4}}+"
_CLOSED = rf"{_CLOSE}(?<=[\"'])"
_APPLICATION = r"(?:create_|make_)?(?:app|application|api|asgi|wsgi)\b"  # as in `run auth:app`
_FORMS: list[_Form] = [
    (re.compile(rf"{_CLOSE}\s*+(?:=>|[:=])\s*+{_COLOURS}[bBfFrRuU]{{0,2}}{_QUOTE}"), _quoted),
    (re.compile(rf"{_CLOSED}\s*+,\s*+[bBfFrRuU]{{0,2}}{_QUOTE}"), _second_of_pair),
    (re.compile(rf"{_CLOSED}\s[^<>]{{0,200}}?\bvalue\s*=\s*{_QUOTE}"), _quoted),  # <input name="token" value="7">
    (re.compile(rf"(?:{_CLOSED}\s*+:\s*+|{_CLOSE}=)(?=[\w.]{{0,60}}+[\[({{])"), _bracketed),
    (  # a part of multipart/form-data: the rest of the line, up to five headers, and an empty line
        re.compile(rf"{_CLOSED}[^\r\n\\]{{0,300}}+{_NEW_LINE}(?:[^\r\n\\]{{1,300}}+{_NEW_LINE}){{0,5}}+{_NEW_LINE}"),
        _ends_before(rf"{_NEW_LINE}--"),
    ),
    (re.compile(r">(?=[^<\s])"), _ends_before("<")),  # <password>7</password>
    (
        re.compile(rf"{_CLOSED}\s*+:\s*+(?=[+-]?\d)"),
        _consists_of(r"[^\s\"',}\]]*+"),
    ),
    (re.compile(rf"{_CLOSE}(?:=(?!=)|[ \t]++=[ \t]++){_COLOURS}(?=[^\s\"'&,;)])"), _consists_of(_BARE)),
    (re.compile(rf"{_COLOURS}[ \t]*+:(?!//|{_APPLICATION})[ \t]*+(?=[^\s\"'])"), _after_colon),
]
