"""Write a change of the source code that moves the function of a route to a process pool, as a short diff."""

import ast
import difflib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import BadInputError
from under_siege.record.files import read_limited
from under_siege.record.result import made_legible
from under_siege.secrets import masked_code
from under_siege.suite.application import RouteFunction
from under_siege.suite.function_uses import MOST_BYTES, Code, imported_names, reached, use_elsewhere

MOST_LINES = 12  # maximum number of lines that a diff adds or removes, except empty lines
_FRAMEWORKS = ("fastapi", "starlette", "litestar", "quart", "flask", "django")
_CONTEXTS = ("flask", "quart")  # their functions need the request or the application, except these
_WITHOUT_CONTEXT = ("abort", "redirect", "Response")
_STREAMS = ("StreamingResponse", "StreamingHttpResponse", "FileResponse", "EventSourceResponse", "Stream", "File")
IN_THREADS = ("fastapi", "starlette", "django", "quart")  # frameworks that run `def` routes in threads
_ON_LOOP = ("asyncio", "anyio", "trio", "contextvars")  # modules that a coroutine function may need its event loop for
_ROUTES = {  # decorators that register a function for a route
    *("get", "post", "put", "patch", "delete", "head", "options", "trace", "route", "api_route", "handler"),
}
_APPLICATIONS = ("FastAPI", "Starlette", "Litestar", "Quart", "Flask")
_CHANGING = {  # methods that change their object
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "put"),
    *("remove", "setdefault", "update"),
}
# A server may end by a signal, so no handler of `atexit` stops the processes of a pool. An initializer runs in each.
_END = """\
def {end}():  # a process of the pool ends with its server, even if a signal ends the server
    threading.Thread(target=lambda: (multiprocessing.parent_process().join(), os._exit(0)), daemon=True).start()
"""
# Servers that import the application before they fork must not share the queues of a pool, so its first use creates it.
_CREATED = (
    'concurrent.futures.ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"), initializer={start})'
)
_POOL = f"""\
@functools.cache
def {{pool}}():
    return {_CREATED}
"""
_SHORT_POOL = f"""\
{{pool}} = functools.cache(lambda: {_CREATED})
"""  # where the change needs more lines elsewhere
# To import the views of Django, each process must set it up first, so it can't get one of their functions before.
_START = """\
{start} = f"import django; django.setup(); import {{__name__}} as views; views.{end}()"
"""


@dataclass(frozen=True, slots=True)
class RouteChange:
    """The line of a function's `def`, and the diff that moves it, or the reason why there is none."""

    line: int
    diff: tuple[str, ...] = ()
    unmovable: str = ""


def change_of(function: RouteFunction, framework: str, folder: Path) -> RouteChange:
    """Return the change with which a process pool computes what this function returns."""
    found = _found(function, folder)
    if isinstance(found, RouteChange):
        return found
    node, source, tree = found
    if why := next(_obstacles(node, function, framework, tree, folder), ""):
        return RouteChange(node.lineno, (), why)
    assert isinstance(node, ast.FunctionDef)
    return _change(node, function.file, source, lambda: _changed(node, framework, source, tree))


def plain_def_of(function: RouteFunction, framework: str, folder: Path) -> RouteChange:
    """Return the change that makes a coroutine function, if it awaits nothing, a `def`, which runs in a thread."""
    found = _found(function, folder)
    if isinstance(found, RouteChange):
        return found
    node, source, tree = found
    nodes = [each for statement in node.body for each in ast.walk(statement)]
    waits = ast.Await | ast.AsyncFor | ast.AsyncWith | ast.Yield | ast.YieldFrom
    line = source.split("\n")[node.lineno - 1]
    comprehensions = (each for each in nodes if isinstance(each, ast.comprehension))
    why = ""
    if not isinstance(node, ast.AsyncFunctionDef):
        why = f"`{node.name}` is a plain def already"
    elif framework not in IN_THREADS:
        why = f"{framework or 'its framework'} doesn't run a plain def in a thread"
    elif any(isinstance(each, waits) for each in nodes) or any(each.is_async for each in comprehensions):
        why = f"`{node.name}` awaits"
    elif not line[node.col_offset :].startswith("async def "):
        why = f"line {node.lineno} has no `async def`"
    why = why or next(_obstacles_to_threads(node, tree, folder / function.file, folder), "")
    why = why or next(_other_decorators(node, framework, tree), "") or use_elsewhere(node, tree, function.file, folder)
    if why:
        return RouteChange(node.lineno, (), why)
    plain = line[: node.col_offset] + line[node.col_offset :].removeprefix("async ")
    lines = source.split("\n")
    return _change(node, function.file, source, lambda: [*lines[: node.lineno - 1], plain, *lines[node.lineno :]])


def _obstacles_to_threads(
    node: ast.FunctionDef | ast.AsyncFunctionDef, tree: ast.Module, file: Path, folder: Path
) -> Iterator[str]:
    """Yield the reasons why the function, or code of the application that it calls, can't run in threads."""
    for code in reached(node, tree, file, folder):
        calls = "" if code.node is node else f"it calls `{getattr(code.node, 'name', '')}`: "
        names = imported_names(code.tree)
        for used in sorted({each.id for each in code.nodes if isinstance(each, ast.Name)}):
            if names.get(used, ("", 0))[0].partition(".")[0] in _ON_LOOP:
                yield f"{calls}it uses `{used}`, which needs the event loop"
        for changed in _changed_globals(code.node, code.tree):
            yield f"{calls}it changes `{changed}`, and threads would change it at the same time"


def _found(
    function: RouteFunction, folder: Path
) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, str, ast.Module] | RouteChange:
    """Return the function, its file and the parsed file; if it can't be found, the reason why there is no change."""
    try:
        source = read_limited(folder / function.file, most_bytes=MOST_BYTES).decode()
        tree = ast.parse(source)
    except (OSError, BadInputError, ValueError, SyntaxError, RecursionError, MemoryError):
        return RouteChange(function.line, (), f"{function.file} can't be read")
    node = next((each for each in ast.walk(tree) if _first_line(each) == function.line), None)
    if node is None and function.is_method:
        return RouteChange(function.line, (), f"`{function.name}` inherits the method that answers it from a library")
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return RouteChange(function.line, (), f"line {function.line} of {function.file} defines no function")
    return node, source, tree


def _change(node: ast.stmt, file: str, source: str, changed: Callable[[], Sequence[str]]) -> RouteChange:
    if why := _why_no_diff(file, source):
        return RouteChange(node.lineno, (), why)
    diff = _diff(file, source, changed())
    if any(line[1:] != line[1:].rstrip() for line in diff if line != " "):  # which tables strip
        return RouteChange(
            node.lineno, (), f"lines of {file} near it end with spaces: remove the spaces, and run again"
        )
    if made_legible(list(diff), lines=True, mask=masked_code) != list(diff):
        return RouteChange(node.lineno, (), f"lines of {file} near it have invisible characters or a secret")
    if sum(line[:1] in ("+", "-") and len(line) > 1 for line in diff[2:]) > MOST_LINES:
        return RouteChange(node.lineno, (), f"the change needs more than {MOST_LINES} lines")
    return RouteChange(node.lineno, diff)


def _why_no_diff(file: str, source: str) -> str:
    """Return why `git apply` and `patch` could not apply a diff of this file, or an empty string."""
    if Path(file).is_absolute():
        return f"{file} is outside this folder"
    return f"{file} has other ends of lines than LF" if re.search("[\r\f\v]", source) else ""


def _diff(file: str, source: str, changed: Sequence[str]) -> tuple[str, ...]:
    """Return the lines of a diff for `git apply` and `patch -p1`."""
    before, after = source.split("\n"), "\n".join(changed).split("\n")
    end = "\n\\ No newline at end of file" if before[-1] else ""
    before, after = ([*lines[:-1], *([lines[-1] + end] if end else [])] for lines in (before, after))
    lines = list(difflib.unified_diff(before, after, f"a/{file}", f"b/{file}", lineterm=""))
    lines[:2] = [line.rstrip() for line in lines[:2]]
    return tuple("\n".join(lines).split("\n"))


def _first_line(node: ast.AST) -> int:
    """Return the line of a function's first decorator or, without one, of its `def`; 0 for other nodes."""
    return _begin(node) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else 0


def _begin(node: ast.stmt) -> int:
    """Return the first line of a statement, with its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def _obstacles(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    function: RouteFunction,
    framework: str,
    tree: ast.Module,
    folder: Path,
) -> Iterator[str]:
    """Yield the reasons why the body of the function can't simply run in another process."""
    name = function.name
    if isinstance(node, ast.AsyncFunctionDef):
        yield f"`{name}` is a coroutine function, which can't be pickled: move the lines that compute"
    if framework == "litestar" and not any(isinstance(each, ast.Call) for each in node.decorator_list):
        yield f"the decorator of `{name}` has no arguments"
    if framework not in _FRAMEWORKS:
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
    for each in nodes:
        if isinstance(each, ast.Name) and each.id in _STREAMS:
            yield f"it returns a {each.id}, which can't be pickled"
    yield from _other_decorators(node, framework, tree)
    for code in reached(node, tree, folder / function.file, folder):
        for why in _obstacles_in(code, framework):
            yield why if code.node is node else f"it calls `{getattr(code.node, 'name', '')}`: {why}"
    if why := use_elsewhere(node, tree, function.file, folder):
        yield why


def _obstacles_in(code: Code, framework: str) -> Iterator[str]:
    """Yield why code of the application can't run in another process."""
    used = {each.id for each in code.nodes if isinstance(each, ast.Name)}
    yield from _contexts(used, framework, code.tree)
    for each in code.nodes:
        if isinstance(each, ast.Raise) and "HTTPException" in ast.unparse(each):
            yield "it raises HTTPException, which can't be pickled: raise it in the route"
    yield from (
        f"it changes `{name}`, and each process would have its own" for name in _changed_globals(code.node, code.tree)
    )
    own = _own_names(code.node)
    for each in code.tree.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each is not code.node:
            for name in sorted((used - own).intersection(_changed_globals(each, code.tree))):
                yield f"it uses `{name}`, which `{each.name}` changes, and each process would have its own"
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call):
            kind = ast.unparse(each.value.func).rpartition(".")[2]
            for target in each.targets:
                if isinstance(target, ast.Name) and target.id in used - own and kind in _APPLICATIONS:
                    yield f"it uses `{target.id}`, and each process would have its own"


def _other_decorators(node: ast.FunctionDef | ast.AsyncFunctionDef, framework: str, tree: ast.Module) -> Iterator[str]:
    """Yield that the function has a decorator other than that of a route; nobody knows what it does."""
    names = imported_names(tree)
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        text = ast.unparse(called)
        package = names.get(text.partition(".")[0], ("", 0))[0].partition(".")[0]
        is_route = isinstance(called, ast.Attribute) and called.attr in _ROUTES
        if not (is_route or package == "litestar" or (package == framework == "django")):
            yield f"it has another decorator ({text.rpartition('.')[2]})"


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


def _own_names(node: ast.AST) -> set[str]:
    """Return the parameters and the local names of a function."""
    nodes = [each for statement in getattr(node, "body", ()) for each in ast.walk(statement)]
    own = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    return own | {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _changed_globals(node: ast.AST, tree: ast.Module) -> Iterator[str]:
    """Yield the names of objects outside the function that its body changes, such as a cache or a counter."""
    own = _own_names(node) | {
        alias.asname or alias.name for each in ast.walk(tree) if isinstance(each, ast.Import) for alias in each.names
    }
    for each in [each for statement in getattr(node, "body", ()) for each in ast.walk(statement)]:
        if isinstance(each, ast.Global):
            yield from each.names
        target: ast.expr | None = None
        if isinstance(each, ast.Subscript | ast.Attribute) and isinstance(each.ctx, ast.Store | ast.Del):
            target = each
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in _CHANGING:
            target = each.func
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "next" and each.args:
            target = each.args[0]
        while isinstance(target, ast.Subscript | ast.Attribute):
            target = target.value
        if isinstance(target, ast.Name) and target.id not in own:
            yield target.id


def _changed(node: ast.FunctionDef, framework: str, source: str, tree: ast.Module) -> list[str]:
    """Return the lines of the file, in which a new function has the body of this one, which waits for its result."""
    lines = source.split("\n")
    if framework == "litestar":  # which runs a plain def on the event loop, unless its decorator says otherwise
        lines = _with_sync_to_thread(lines, node)
    taken = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)} | {
        each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    taken |= {*imported_names(tree), *(each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg))}
    wanted = ("pool", "watch_server", "start", f"compute_{node.name}")
    pool, end, start, compute = (_free(name, taken) for name in wanted)
    text, *others = node.body
    is_documented = ast.get_docstring(node) is not None and bool(others) and others[0].lineno > (text.end_lineno or 0)
    first = node.body[is_documented]
    used = {each.id for statement in node.body for each in ast.walk(statement) if isinstance(each, ast.Name)}
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if each.arg in used]
    arguments, header = ", ".join([compute, *names]), f"def {compute}({', '.join(names)}):"
    begin, modules = _first_line(node) - 1, ["concurrent.futures", "functools", "multiprocessing", "os", "threading"]
    above, definition = lines[begin : node.lineno - 1], lines[node.lineno - 1 : _begin(first) - 1]
    rest = lines[_begin(first) - 1 :]
    line = lines[first.lineno - 1].encode()
    indent = line[: first.col_offset].decode()
    if indent.strip():  # the body is on the line on which the signature ends
        definition, indent = [*definition, indent.rstrip()], "    "
        header, rest = f"{header} {line[first.col_offset :].decode()}", lines[first.lineno :]
    parts = [_END.format(end=end)]
    if framework == "django":
        parts.append(
            _START.format(start=start, end=end) + _SHORT_POOL.format(pool=pool, start=f"exec, initargs=({start},)")
        )
    else:
        parts.append((_SHORT_POOL if framework == "litestar" else _POOL).format(pool=pool, start=end))
    begin = begin - _comments_above(lines[:begin])
    before, comments = lines[:begin], lines[begin : _first_line(node) - 1]
    empty = len(before) - len("\n".join(before).rstrip("\n").split("\n")) if "".join(before) else 2
    added = [*[""] * max(0, 2 - empty), *"\n\n".join(parts).split("\n"), ""]
    body = [
        *comments,
        *above,
        *definition,
        f"{indent}return {pool}().submit({arguments}).result()",
        "",
        "",
        header,
        *rest,
    ]
    return [*_with_imports(before, modules, tree), *added, *body]


def _route_call(node: ast.FunctionDef) -> ast.Call | None:
    """Return the decorator that registers the function, with its arguments, or None if no decorator has any."""
    return next((each for each in node.decorator_list if isinstance(each, ast.Call)), None)


def _with_sync_to_thread(lines: list[str], node: ast.FunctionDef) -> list[str]:
    """Return the lines, in which the decorator of the function has the argument `sync_to_thread=True`."""
    call = _route_call(node)
    assert call is not None
    value = next((each.value for each in call.keywords if each.arg == "sync_to_thread"), None)
    last = max([*call.args, *(each.value for each in call.keywords)], key=_end, default=None)
    if value is not None:
        number, begin, end, text = value.lineno, value.col_offset, _end(value)[1], "True"
    elif last is not None:
        number, begin, end, text = *_end(last), _end(last)[1], ", sync_to_thread=True"
    else:
        number, begin, end, text = _end(call)[0], _end(call)[1] - 1, _end(call)[1] - 1, "sync_to_thread=True"
    line = lines[number - 1].encode()
    return [*lines[: number - 1], f"{line[:begin].decode()}{text}{line[end:].decode()}", *lines[number:]]


def _end(node: ast.expr) -> tuple[int, int]:
    """Return the last line of an expression and the offset of its end in bytes."""
    return node.end_lineno or 0, node.end_col_offset or 0


def _comments_above(lines: Sequence[str]) -> int:
    """Return how many of the last lines are comments."""
    return next((number for number, line in enumerate(reversed(lines)) if not line.startswith("#")), len(lines))


def _with_imports(lines: list[str], modules: list[str], tree: ast.Module) -> list[str]:
    """Return the lines with imports of those modules that they don't import, in front of the first other import."""
    known = {
        alias.name
        for each in tree.body
        if isinstance(each, ast.Import) and each.lineno <= len(lines)
        for alias in each.names
        if not alias.asname
    }
    added = [f"import {module}" for module in sorted(modules) if module not in known]
    imports = [
        each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom) and each.lineno <= len(lines)
    ]
    future = [each for each in imports if isinstance(each, ast.ImportFrom) and each.module == "__future__"]
    others = [each for each in imports if each not in future]
    if others:
        line = others[0].lineno - 1
        name = others[0].module if isinstance(others[0], ast.ImportFrom) else others[0].names[0].name
        is_standard = (name or "").partition(".")[0] in sys.stdlib_module_names and not getattr(others[0], "level", 0)
        return [*lines[:line], *added, *([] if is_standard else [""]), *lines[line:]]
    line = future[-1].end_lineno or 0 if future else 0
    if not future and ast.get_docstring(tree) is not None:
        line = tree.body[0].end_lineno or 0
    return [*lines[:line], *([""] if line else []), *added, *([] if line else [""]), *lines[line:]]


def _free(name: str, taken: set[str]) -> str:
    """Return the name with as many underscores as needed to make it unique."""
    return name if name not in taken else _free(f"{name}_", taken)
