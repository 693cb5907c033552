"""A server of a suite in a file: what starts it, and what that depends on."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from packaging.requirements import InvalidRequirement, Requirement

from common.errors import BadInputError
from under_siege.model.case import Value
from under_siege.model.sanitize import legible
from under_siege.model.target import Amount, Target, filled, filled_words, names_in
from under_siege.targets.toml_table import Table, shown

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


SERVICES = ("postgresql", "redis")
PLACES = ("host", "port", "folder", "suite", "files", "python", *SERVICES)  # in braces, beside the axes
OF_LOAD = ("task", "users", "path", "keep_alive")  # axes that every server depends on
KEYS = (
    "title",
    "command",
    "url",
    "requirements",
    "environment",
    "needs",
    "ceiling",
    "ready_within",
    "warm_up",
    "prepare",
    "headers",
)
MOST_BYTES = 1_000_000  # of a file in which names are filled in
Axes = Mapping[str, Sequence[Value]]
Common = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


def read_server(
    path: Path, name: str, data: object, axes: Axes, common: Common, *, has_task: bool
) -> tuple[Target, bool]:
    """A server of a suite, and whether it is the ceiling.

    Args:
        common: requirements and environment of all servers that are started and are no programs of the system.

    Raises:
        BadInputError: something in it can't be.
    """
    table = Table(f"{path} [servers.{legible(name)[:60]}]", data, KEYS)
    if not re.fullmatch(r"[\w.+-]{1,60}", name):
        raise table.wrong("has a name of other signs", "letters, digits, and any of _ . + -")
    url = table.text("url").rstrip("/")
    named = dict.fromkeys(names_in(url), "1")  # whatever their values, one will do for the form
    if url and ("?" in url or address(filled(url, named)) is None):
        raise table.wrong(f"has url = {shown(url)}", "one such as http://127.0.0.1:8000")
    if not url and "command" not in table:
        raise table.wrong("has neither a command nor a url", 'such as command = "uvicorn app:app --port {port}"')
    target = Target(
        name,
        legible(table.text("title", name)),
        command=_command(table, path.parent, has_url=bool(url)) if "command" in table else (),
        url=url,
        environment=table.environment("environment"),
        requirements=table.texts("requirements"),
        needs=table.texts("needs"),
        ready_within_s=table.seconds("ready_within", 0.0) if "ready_within" in table else None,
        prepare=words_of(table, "prepare"),
        headers=table.environment("headers"),
        warm_up=amount(table, "warm_up") if "warm_up" in table else None,
    )
    if target.command and target.command[0] not in target.needs:
        requirements, environment = common
        variables = tuple({**dict(environment), **dict(target.environment)}.items())
        target = replace(target, requirements=(*requirements, *target.requirements), environment=variables)
    _check_requirements(table, path.parent, target.requirements, axes)
    return _at_places(table, target, axes, has_task=has_task), table.flag("ceiling")


def _at_places(table: Table, target: Target, axes: Axes, *, has_task: bool) -> Target:
    """The target with the axes that it depends on, and the services that it names."""
    variables = [text for pair in target.environment for text in pair]
    named = names_in(*target.command, *variables, *target.requirements, target.url, *target.prepare)
    for name in named:
        if name not in (*PLACES, *axes):
            own = [name for name in axes if name not in OF_LOAD]
            raise table.wrong(f"names {{{name}}}, which is no axis", f"one of {', '.join((*PLACES, *own))}")
    services = [name for name in named if name in SERVICES and name not in target.needs]
    # What a program of the system does, no Python changes.
    on_python = bool(target.command) and target.command[0] not in target.needs
    depends = [name for name in axes if name in (*named, *OF_LOAD)]
    depends += ["python"] * (has_task or on_python or bool(target.requirements))
    return replace(target, needs=(*target.needs, *services), axes=tuple(depends))


def words_of(table: Table, key: str) -> tuple[str, ...]:
    """The words of a command, as in a shell; none where nothing is said."""
    command = table.text(key)
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise table.wrong(f"has {key} = {shown(command)}, which is not closed ({error})", "quotes in pairs") from None
    if words and not words[0]:
        raise table.wrong(f"has {key} = {shown(command)}", "a program, and what it is told")
    return words


def amount(table: Table, key: str) -> Amount:
    """A number of requests, or a time as text: `6000`, `"2s"`."""
    if isinstance(table.raw(key), str):
        return Amount(time_s=table.seconds(key, 0.0))
    return Amount(requests=table.number(key, None, 0, 10_000_000) or None)


def _command(table: Table, folder: Path, *, has_url: bool) -> tuple[str, ...]:
    command, words = table.text("command"), words_of(table, "command")
    texts = [*words, *(text for pair in table.environment("environment") for text in pair)]
    told = "port" in names_in(*texts) or any(template_text(word, folder) is not None for word in words)
    if not has_url and not told:
        expected = "the port that it is to listen on, as --port {port}, or in a file that the command names"
        raise table.wrong(f"has command = {shown(command)} without {{port}}", expected)
    return words


def template_text(word: str, folder: Path) -> str | None:
    """What is in the file of the suite that a word of a command names, if `{port}` is; None if it isn't."""
    path = folder / word
    try:
        if names_in(word) or not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return text if "port" in names_in(text) else None


def _check_requirements(table: Table, folder: Path, requirements: Sequence[str], axes: Axes) -> None:
    for one in filled_words(requirements, {name: values[0] for name, values in axes.items()}):
        if one.startswith("-r ") and not (folder / (name := one[3:].strip())).is_file():
            raise table.wrong(f"has a requirement {shown(one)}", f"a file {name!r} in the folder of the suite")
        if one.startswith(("-r ", "-e ", "./", "../")) or one == ".":
            continue
        try:
            Requirement(one)
        except InvalidRequirement:
            raise table.wrong(
                f"has a requirement {shown(one)}", 'one such as "uvicorn==0.54.*", or "-r requirements.txt"'
            ) from None
