"""What is to be compared, from the words that name it: strategies, a suite, servers of a suite, or addresses."""

import re
from collections.abc import Sequence
from pathlib import Path

from common.errors import BadInputError
from common.harness.ready.address import address, path_of, ping_path
from common.harness.ready.load_keys import refuse_unsupported
from common.harness.ready.strategies import strategies_suite
from common.harness.ready.style import in_style
from common.harness.ready.suite_file import NAME, read_suite, suite_path
from common.model.legible import legible
from common.model.suite import Load, Ping, Suite
from common.model.target import Target


def suite_of(
    names: Sequence[str], ping: str | None = None, *, quick: bool = False, style: str = "", command: str = "run"
) -> Suite:
    """The suite that all of the words name together; all strategies where there is none.

    Args:
        ping: the path of a health check, of servers that are named by their address.
        quick: whether the quick form of a suite is meant.
        style: how it is asked, one of `STYLES`; empty: not in this way.
        command: the command that measures it, which may not support every key of a suite.

    Raises:
        BadInputError: nothing fits a word, or they do not fit together.
    """
    suite = _named_suite(names, ping, quick=quick)
    found = in_style(suite, style) if style else suite
    refuse_unsupported(command, found)
    return found


def _named_suite(names: Sequence[str], ping: str | None, *, quick: bool) -> Suite:
    addresses = [name for name in names if re.match(r"https?://", name)]
    if ping is not None and not addresses:
        raise BadInputError("--ping goes with the address of a server: expected such as http://127.0.0.1:8000/report")
    files = {name: found for name in names if (found := _file_and_server(name)) is not None}
    if quick and not files:
        raise BadInputError("--quick goes with a suite that has a quick form: expected such as suites/wsgi --quick")
    if folder := next((name for name in names if Path(name).is_dir() and name not in files), None):
        raise BadInputError(f"{legible(folder)!r} has no {NAME}: expected one, as bench.py init writes it there")
    if addresses:
        _refuse_a_mixture(names, addresses)
        return _running_suite(addresses, ping)
    if not files:
        return strategies_suite(names)
    _refuse_a_mixture(names, list(files))
    paths = {str(path): path for path, _ in files.values()}
    if len(paths) > 1:
        raise BadInputError(f"{' and '.join(paths)} are different suites: expected one in a run")
    whole = any(server is None for _, server in files.values())
    only = [] if whole else [server or "" for _, server in files.values()]
    return read_suite(next(iter(paths.values())), only, quick=quick)


def _file_and_server(name: str):  # type: ignore[no-untyped-def]
    if (path := suite_path(name)) is not None:
        return path, None
    before, colon, server = name.rpartition(":")
    if colon and (path := suite_path(before)) is not None:
        return path, server
    return None


def _refuse_a_mixture(names: Sequence[str], some: Sequence[str]) -> None:
    if other := next((name for name in names if name not in some), None):
        raise BadInputError(
            f"{legible(other)!r} can't be compared with {legible(some[0])!r}, which is asked for something else: "
            "expected strategies, one suite, or addresses"
        )


def _running_suite(addresses: Sequence[str], ping: str | None) -> Suite:
    """Servers that run already. Nothing is asked for but what the addresses and the ping name."""
    targets, paths = [], []
    for one in addresses:
        parts = address(one)
        if parts is None:
            raise BadInputError(f"{legible(one)!r} can't be asked: expected one such as http://127.0.0.1:8000/report")
        paths.append(path_of(parts))
        targets.append(Target(parts.netloc, one, axes=("users", "path"), url=f"http://{parts.netloc}"))
    if len(set(paths)) > 1:
        raise BadInputError(
            f"{paths[0]} and {paths[1]} are different questions: expected the same path of every server"
        )
    if len(set(targets)) < len(targets):
        raise BadInputError(f"{addresses[0]} is named twice: expected servers that differ")
    return Suite(
        tuple(targets),
        ceiling=None,
        load=Load(),
        axes={"users": (25,), "path": (paths[0],)},
        ping=Ping(ping_path("--ping", ping)) if ping is not None else None,
        title="Servers that run already",
        has_task=False,
    )
