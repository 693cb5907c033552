"""Nothing of this project stands between a request and the library: servers are stock, and common/ is small."""

import ast
import builtins
import difflib
import re
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, SERVERS, TESTS
from source_code import lines_of_code

from common import fastapi_kit

COMMON = sorted((ROOT / "common").rglob("*.py"))
MAY_BE_SUBCLASSED = {
    "tornado.web.RequestHandler",
    "gunicorn.app.base.BaseApplication",
    "gunicorn.dirty.DirtyApp",
    "argparse.ArgumentParser",
    "typing.NamedTuple",
    "typing.Protocol",
}
MAY_BE_ASSIGNED_TO = {"flask.g"}  # made for the application's own values
MAY_BE_USED = {"asyncio._get_running_loop", "sys._is_gil_enabled"}
EXCEPTIONS = {name for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException)}
MOST_LINES = {"load_shedding.py": 20, "options.py": 60}  # of code
MOST_LINES_TOGETHER, MOST_MODULES = 860, 14


class Module:
    """The source code of a module, and what its names mean."""

    def __init__(self, source: str) -> None:
        self.nodes = list(ast.walk(ast.parse(source)))
        self.classes = {node.name for node in self.nodes if isinstance(node, ast.ClassDef)}
        self.imported: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.split(".")[0]
                    self.imported[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom):
                self.imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}

    def meaning(self, node: ast.AST) -> str:
        """Return `tornado.web.RequestHandler` for a name that was imported from there, or the name itself."""
        if isinstance(node, ast.Attribute):
            return f"{self.meaning(node.value)}.{node.attr}"
        return self.imported.get(node.id, node.id) if isinstance(node, ast.Name) else ""

    def is_foreign(self, node: ast.AST) -> bool:
        """Return whether the expression begins with something imported from a library."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and not self.imported.get(node.id, "common").startswith("common")

    def subclassed(self) -> Iterator[str]:
        for node in self.nodes:
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                name = self.meaning(base.value if isinstance(base, ast.Subscript) else base)
                if name not in self.classes | EXCEPTIONS | MAY_BE_SUBCLASSED and not name.startswith("common."):
                    yield f"subclasses {name}"

    def assigned_to(self) -> Iterator[str]:
        for node in self.nodes:
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and self.is_foreign(node):
                if self.meaning(node.value) not in MAY_BE_ASSIGNED_TO:
                    yield f"assigns to {self.meaning(node)}"
            elif isinstance(node, ast.Call) and self.meaning(node.func) in ("setattr", "delattr"):
                yield f"calls {self.meaning(node.func)}"

    def private(self) -> Iterator[str]:
        for node in self.nodes:
            if isinstance(node, ast.Attribute) and is_private(node.attr) and not self.is_own(node):
                yield f"uses {self.meaning(node)}"
            elif isinstance(node, ast.ImportFrom):
                names = [alias.name for alias in node.names if not str(node.module).startswith("common")]
                yield from (f"uses {node.module}.{name}" for name in names if is_private(name))

    def is_own(self, node: ast.Attribute) -> bool:
        """Return whether a private attribute is a known exception, or is defined by a class of this module."""
        defined = {one.attr for one in self.nodes if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)}
        defined |= {one.name for one in self.nodes if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
        is_of_self = isinstance(node.value, ast.Name) and node.value.id == "self"
        return self.meaning(node) in MAY_BE_USED or (is_of_self and node.attr in defined)

    def faults(self) -> list[str]:
        return [*self.subclassed(), *self.assigned_to(), *self.private()]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


@pytest.mark.parametrize("path", [*COMMON, *SERVERS], ids=lambda path: path.stem)
def test_servers_neither_subclass_nor_patch_their_library_nor_use_its_private_attributes(path: Path) -> None:
    assert Module(path.read_text()).faults() == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("import uvicorn\nclass Ours(uvicorn.Server): ...", "subclasses uvicorn.Server"),
        (
            "from gunicorn.workers.sync import SyncWorker as S\nclass A(S): ...",
            "subclasses gunicorn.workers.sync.SyncWorker",
        ),
        ("import socket\nclass Ours(socket.socket): ...", "subclasses socket.socket"),
        ("import werkzeug.serving\nwerkzeug.serving.x = 1", "assigns to werkzeug.serving.x"),
        ("from uvicorn import Server\nServer.shutdown = None", "assigns to uvicorn.Server.shutdown"),
        ("setattr(a, 'b', 1)", "calls setattr"),
        ("server._sockets", "uses server._sockets"),
        ("class A(RuntimeError):\n def f(self): self._reason", "uses self._reason"),
        ("from asyncio import _x", "uses asyncio._x"),
    ],
)
def test_subclasses_patches_and_private_attributes_are_found(source: str, fault: str) -> None:
    (found,) = Module(source).faults()
    assert found == fault


def test_common_is_small() -> None:
    lines = {path.name: lines_of_code(path) for path in COMMON}
    assert {name for name, most in MOST_LINES.items() if lines[name] > most} == set()
    assert len([path for path in COMMON if path.name != "__init__.py"]) <= MOST_MODULES
    assert sum(lines.values()) <= MOST_LINES_TOGETHER


@pytest.mark.parametrize("script", SERVERS, ids=lambda path: path.stem)
def test_a_server_file_is_short_and_neither_parses_options_nor_handles_signals(script: Path) -> None:
    source = script.read_text()
    tree = ast.parse(source)
    assert len(ast.get_docstring(tree).splitlines()[0]) <= 120
    assert lines_of_code(script) <= 25
    assert not any(isinstance(node, ast.Try) for node in ast.walk(tree))
    assert not re.search(r"\b(argparse|logging|signal|sys)\b", source)
    assert 'fork"' not in source


def test_at_most_six_lines_differ_between_the_servers_with_threads_and_with_processes() -> None:
    threads, processes = (SERVERS[number - 1].read_text().splitlines() for number in (3, 4))
    changes = difflib.SequenceMatcher(None, threads, processes, autojunk=False).get_opcodes()
    assert sum(max(b - a, d - c) for kind, a, b, c, d in changes if kind != "equal") <= 6


def test_the_stock_variants_are_short_and_do_not_use_the_code_of_the_servers() -> None:
    for path in (TESTS / "suites" / "stock").glob("*.py"):
        assert "common" not in path.read_text(), path
        assert lines_of_code(path) <= 30, path


@pytest.mark.parametrize("queue", [None, 3])
def test_fastapi_has_a_middleware_only_if_the_queue_is_limited(
    monkeypatch: pytest.MonkeyPatch, queue: int | None
) -> None:
    monkeypatch.setattr(fastapi_kit, "listening_socket", lambda _: None)
    monkeypatch.setattr(fastapi_kit.uvicorn.Server, "run", lambda *_, **__: None)
    monkeypatch.setattr(fastapi_kit.signal, "signal", lambda *_: None)
    options = Namespace(workers=4, queue=queue)
    app = fastapi_kit.task_app()
    fastapi_kit.serve(app, options)
    assert len(app.user_middleware) == (queue is not None)
