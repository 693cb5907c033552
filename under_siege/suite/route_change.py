"""Write a change of the source code that moves the function of a route to a process pool, as a short diff."""

import ast
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import BadInputError
from under_siege.record.files import read_limited
from under_siege.suite.application import RouteFunction

MOST_LINES = 12  # of a diff
_MOST_BYTES = 2_000_000  # of a source file
_LOOPS = ("fastapi", "starlette", "litestar", "quart")  # frameworks whose routes may be coroutines
_THREADS = ("flask", "django")
_CONTEXTS = ("flask", "quart")  # their functions need the request or the application, except these
_WITHOUT_CONTEXT = ("abort", "redirect", "Response")
_STREAMS = ("StreamingResponse", "StreamingHttpResponse", "FileResponse", "EventSourceResponse", "Stream", "File")
# Uvicorn ends by a signal after its shutdown, so no handler of `atexit` stops the processes of a pool.
_WITH_SERVER = (
    "if {0} := multiprocessing.parent_process(): "
    "threading.Thread(target=lambda: ({0}.join(), os._exit(0)), daemon=True).start()"
)
_SPAWN = 'concurrent.futures.ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")'


@dataclass(frozen=True, slots=True)
class Change:
    """The line of a function's `def`, and the diff that moves it, or the reason why there is none."""

    line: int
    diff: tuple[str, ...] = ()
    unmovable: str = ""


def change_of(function: RouteFunction, framework: str, folder: Path) -> Change:
    """Return the change with which a process pool computes what this function returns."""
    try:
        source = read_limited(folder / function.file, most_bytes=_MOST_BYTES).decode()
        tree = ast.parse(source)
    except (OSError, BadInputError, ValueError, SyntaxError, RecursionError, MemoryError):
        return Change(function.line, (), f"{function.file} can't be read")
    node = next((each for each in ast.walk(tree) if _first_line(each) == function.line), None)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return Change(function.line, (), f"line {function.line} of {function.file} defines no function")
    if why := next(_obstacles(node, function, framework, tree), ""):
        return Change(node.lineno, (), why)
    assert isinstance(node, ast.FunctionDef)
    changed = _changed(node, framework, source, tree)
    lines = difflib.unified_diff(source.splitlines(), changed, function.file, function.file, lineterm="", n=0)
    diff = tuple(line.rstrip() if line.startswith(("---", "+++")) else line for line in lines)
    if len(diff) > MOST_LINES:
        return Change(node.lineno, (), f"the change needs more than {MOST_LINES} lines")
    return Change(node.lineno, diff)


def _first_line(node: ast.AST) -> int:
    """Return the line of a function's first decorator or, without one, of its `def`; 0 for other nodes."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return 0
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _obstacles(
    node: ast.FunctionDef | ast.AsyncFunctionDef, function: RouteFunction, framework: str, tree: ast.Module
) -> Iterator[str]:
    """Yield the reasons why the body of the function can't simply run in another process."""
    name = function.name
    if isinstance(node, ast.AsyncFunctionDef):
        yield f"`{name}` is a coroutine function, which can't be pickled: move the lines that compute"
    if framework not in (*_LOOPS, *_THREADS):
        yield f"there is no recipe for {framework or 'this framework'}"
    if function.is_method or node.col_offset or "<locals>" in name:
        yield f"`{name}` is not at the top level of its module, so it can't be pickled"
    nodes = [each for statement in node.body for each in ast.walk(statement)]
    if any(isinstance(each, ast.Yield | ast.YieldFrom) for each in nodes):
        yield f"`{name}` is a generator, which can't be pickled"
    if node.args.vararg or node.args.kwarg:
        yield f"`{name}` has any number of parameters"
    used = {each.id for each in nodes if isinstance(each, ast.Name)}
    if not used and len(node.body) < 2 and isinstance(node.body[0], ast.Expr):
        yield f"`{name}` has no body"
    request = [each.arg for each in node.args.args[:1]] if framework in ("django", "starlette") else []
    for parameter in (*request, *function.unmovable):
        if parameter in used:
            yield f"`{parameter}` can't be pickled: move the lines that compute, with plain values"
    yield from _contexts(used, framework, tree)
    for each in nodes:
        if isinstance(each, ast.Raise) and "HTTPException" in ast.unparse(each):
            yield "it raises HTTPException, which can't be pickled: raise it in the route"
        if isinstance(each, ast.Name) and each.id in _STREAMS:
            yield f"it returns a {each.id}, which can't be pickled"
    yield from (f"it changes `{name}`, and each process would have its own" for name in _changed_globals(node, nodes))


def _contexts(used: set[str], framework: str, tree: ast.Module) -> Iterator[str]:
    """Yield the names that Flask binds to the current request."""
    if framework not in _CONTEXTS:
        return
    for each in ast.walk(tree):
        if isinstance(each, ast.ImportFrom) and (each.module or "").partition(".")[0] == framework:
            names = {alias.asname or alias.name for alias in each.names if alias.name not in _WITHOUT_CONTEXT}
        elif isinstance(each, ast.Import):
            names = {alias.asname or alias.name for alias in each.names if alias.name == framework}
        else:
            continue
        yield from (
            f"it uses `{name}`, which exists only during a request: move the lines that compute"
            for name in sorted(names & used)
        )


def _changed_globals(node: ast.AST, nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the names of objects outside the function that its body changes, such as a cache or a counter."""
    own = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    own |= {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    for each in nodes:
        if isinstance(each, ast.Global):
            yield from each.names
        if isinstance(each, ast.Subscript | ast.Attribute) and isinstance(each.ctx, ast.Store | ast.Del):
            target: ast.expr = each
            while isinstance(target, ast.Subscript | ast.Attribute):
                target = target.value
            if isinstance(target, ast.Name) and target.id not in own:
                yield target.id


def _changed(node: ast.FunctionDef, framework: str, source: str, tree: ast.Module) -> list[str]:
    """Return the lines of the file, in which a new function has the body of this one, which awaits its result."""
    lines = source.splitlines()
    taken = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)} | {
        each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    pool, server, compute = (_free(name, taken) for name in ("pool", "server", f"compute_{node.name}"))
    is_documented = ast.get_docstring(node) is not None and len(node.body) > 1
    first = node.body[is_documented]
    used = {each.id for statement in node.body for each in ast.walk(statement) if isinstance(each, ast.Name)}
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if each.arg in used]
    arguments, header = ", ".join([compute, *names]), f"def {compute}({', '.join(names)}):"
    modules = "concurrent.futures, multiprocessing, os, threading"
    if framework in _LOOPS:
        modules = f"asyncio, {modules}"
        call = f"    return await asyncio.get_running_loop().run_in_executor({pool}, {arguments})"
    else:
        call = f"    return {pool}.submit({arguments}).result()"
    setup = ""
    if framework == "django":
        modules, setup = f"{modules}, django", ", initializer=django.setup"
    start = _first_line(node) - 1
    before, definition = lines[start : node.lineno - 1], lines[node.lineno - 1 : first.lineno - 1]
    rest = lines[first.lineno - 1 :]
    if first.lineno == node.lineno:  # the body is on the same line
        line = lines[node.lineno - 1].encode()
        definition = [line[: first.col_offset].decode().rstrip()]
        header, rest = f"{header} {line[first.col_offset :].decode()}", lines[node.lineno :]
    if framework in _LOOPS:
        definition[0] = f"async {definition[0]}"
    added = [f"import {modules}", _WITH_SERVER.format(server), f"{pool} = {_SPAWN}{setup})"]
    space = [] if is_documented and framework in _LOOPS else [""]  # otherwise, the diff would have one line too many
    return [*lines[:start], *added, *before, *definition, call, *space, header, *rest]


def _free(name: str, taken: set[str]) -> str:
    """Return the name with as many underscores as needed to make it unique."""
    return name if name not in taken else _free(f"{name}_", taken)
