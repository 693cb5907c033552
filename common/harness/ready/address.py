"""Where something is asked: the address of a server that runs already, and a path there, as a stranger writes them."""

import re
from urllib.parse import SplitResult, urlsplit

from common.errors import BadInputError
from common.harness.ready.toml_table import shown
from common.model.template import names_in

PATH = "one that begins with /, of letters, digits and signs that an address may have, others as %20, %C3%A9, no /../"
# RFC 3986, and brackets, which all tools leave alone, and braces, for names: what else there is they write each in a
# way of its own.
_PATH = re.compile(r"/[\w/?%.~!$&'()*+,;=:@\[\]{}-]*", re.ASCII)
_DOTS = re.compile(r"/\.{1,2}(/|$)")  # which some tools resolve, and others send


def is_path(text: str) -> bool:
    """Whether every load tool asks for the same with it."""
    return bool(_PATH.fullmatch(text)) and not _DOTS.search(text.partition("?")[0])


def address(text: str) -> SplitResult | None:
    """Its parts; None if it is none of HTTP, or has a user or a fragment, which tools understand differently."""
    try:
        parts = urlsplit(text)
        port_is_good = parts.port != 0
    except ValueError:  # a port that is no number, or brackets without a partner
        return None
    at_host = re.fullmatch(r"http://[\w.:\[\]-]+(/[^\s#]*|\?[^\s#]*)?", text, re.ASCII)
    if at_host is None or not parts.hostname or not port_is_good or parts.netloc.endswith(":"):
        return None
    return parts if is_path(path_of(parts)) else None


def path_of(parts: SplitResult) -> str:
    """What is asked for there."""
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def ping_path(where: str, text: str) -> str:
    """The same text.

    Raises:
        BadInputError: it is no path, or has a name in braces, which is not filled in there.
    """
    if not is_path(text):
        raise BadInputError(f"{where} {shown(text)}: expected {PATH}")
    if names := names_in(text):
        raise BadInputError(f"{where} {shown(text)} has {{{names[0]}}}: expected one path for all, without braces")
    return text
