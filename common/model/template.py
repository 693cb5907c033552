"""Text with names in braces, such as `--port {port}`, and what comes of it when each name has its value."""

import re
from collections.abc import Iterable, Mapping

_NAME = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def names_in(*texts: str) -> list[str]:
    """The names in braces, each once; other braces are just braces."""
    return list(dict.fromkeys(name for text in texts for name in _NAME.findall(text)))


def filled(text: str, values: Mapping[str, object]) -> str:
    """The text with the values of those names that have one."""
    return _NAME.sub(lambda found: str(values.get(found[1], found[0])), text)


def filled_words(words: Iterable[str], values: Mapping[str, object]) -> list[str]:
    """The same for each word."""
    return [filled(word, values) for word in words]
