"""Import an application as its servers do, and report what it is: its kind, routes, hosts and servers.

This script runs in the user's Python, which may be 3.9, and in the user's folder. It imports only the standard library.
"""

import asyncio
import contextlib
import enum
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import re
import sys
import time
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

LOOPBACK = "127.0.0.1"
INJECTED = ("Depends", "Security", "Provide", "DependencyKwarg", "Dependency", "File")  # what a framework passes
MODULES = (  # of the servers; a server is installed if its module can be imported
    *("aiohttp", "granian", "gunicorn", "gunicorn.workers.gasgi", "hypercorn", "sanic", "tornado", "uvicorn"),
    *("packaging", "uvicorn_worker", "uvicorn.workers", "waitress"),
)
FRAMEWORKS = {  # class → kind of application, name of the framework
    "aiohttp.web_app.Application": ("aiohttp", "aiohttp"),
    "tornado.web.Application": ("tornado", "tornado"),
    "fastapi.applications.FastAPI": ("asgi", "fastapi"),
    "starlette.applications.Starlette": ("asgi", "starlette"),
    "litestar.app.Litestar": ("asgi", "litestar"),
    "quart.app.Quart": ("asgi", "quart"),
    "sanic.app.Sanic": ("asgi", "sanic"),
    "django.core.handlers.asgi.ASGIHandler": ("asgi", "django"),
    "django.core.handlers.wsgi.WSGIHandler": ("wsgi", "django"),
    "flask.app.Flask": ("wsgi", "flask"),
    "bottle.Bottle": ("wsgi", "bottle"),
    "falcon.asgi.app.App": ("asgi", "falcon"),
    "falcon.app.App": ("wsgi", "falcon"),
    "pyramid.router.Router": ("wsgi", "pyramid"),
}
MOST_ROUTES = 300
WRAPPED = ("app", "application", "wsgi_app", "_app", "inner")  # where middleware keeps the application
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
# Packages that listen only to serve an application; others, such as prometheus_client, may listen when imported.
SERVER_PACKAGES = (
    *("aiohttp", "daphne", "granian", "gunicorn", "hypercorn", "sanic", "tornado", "uvicorn", "waitress", "werkzeug"),
)
LIKELY = ("app", "application", "create_app", "make_app", "get_app", "build_app")
USUAL_MODULES = ("main", "app", "asgi", "wsgi", "application", "server", "web", "api")  # of a package
IMPORTED_IN_LOOP: list[str] = []  # modules whose import needs a running event loop
Route = tuple[str, str, Any]  # method, path, and the function or class that answers


class NoApplicationError(Exception):
    """The application can't be imported, or is none; the text says why and what to do."""


def required_parameters(thing: Any) -> Optional[list[str]]:
    """Return the names of the positional parameters without a default, or None if they are unknown."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return None
    return [each.name for each in parameters if each.kind in POSITIONAL and each.default is each.empty]


def known_class(thing: Any) -> Optional[tuple[str, str]]:
    """Return the kind and the framework of an application object, or None for any other object."""
    names = (f"{each.__module__}.{each.__qualname__}" for each in type(thing).__mro__)
    return next((FRAMEWORKS[name] for name in names if name in FRAMEWORKS), None)


def kind_of(thing: Any) -> str:
    """Return `asgi`, `wsgi`, `aiohttp`, `tornado` or `factory`, or an empty string for any other object."""
    if known := known_class(thing):
        return known[0]
    if not callable(thing):
        return ""
    names = required_parameters(thing)
    call = thing if inspect.isroutine(thing) else type(thing).__call__
    if names is None:
        return ""
    if len(names) == 3 and (inspect.iscoroutinefunction(call) or names[0] == "scope"):
        return "asgi"
    if len(names) == 2 and not inspect.isclass(thing) and (not inspect.isroutine(thing) or "start" in names[1]):
        return "wsgi"  # a function of two other parameters, such as create_app(config, debug), is none
    return "factory" if not names and (inspect.isroutine(thing) or inspect.isclass(thing)) else ""


def imported(module: str) -> tuple[Any, str]:
    """Return the module, and `src` if this folder must be on the path to import it from there, or an empty string.

    Sources in `src` precede an installed copy of them, because the copy lacks the latest changes. The copy is imported
    only if the sources are incomplete, such as without an extension that is compiled during installation.
    """
    top, source = module.partition(".")[0], str(Path("src").resolve())
    installed, paths = place_of(top), sys.path[:]
    if not Path("src").is_dir() or is_below(installed, source):
        return loaded(module, "here"), ""
    sys.path.insert(1, source)  # servers import from this folder first
    importlib.invalidate_caches()
    if installed and not is_below(place_of(top), source):
        if not is_below(installed, str(Path.cwd())) or not has_modules(source):
            sys.path[:] = paths
            return loaded(module, "here"), ""
        return loaded(module, "here"), "src"  # a module beside src, which imports from there
    try:
        return loaded(module, "here or in src"), "src"
    except NoApplicationError as error:
        name = str(getattr(error.__context__, "name", "")) if isinstance(error.__context__, ModuleNotFoundError) else ""
        if not installed or not name.startswith(f"{top}.") or f"{module}.".startswith(f"{name}."):
            raise
    sys.path[:] = paths
    for each in [each for each in sys.modules if f"{each}.".startswith(f"{top}.")]:
        del sys.modules[each]
    return loaded(module, "here"), ""


def place_of(package: str) -> str:
    """Return where a package or a module without parents would be imported from, or an empty string."""
    try:
        spec = importlib.util.find_spec(package)
    except Exception:
        return ""
    places = [*(spec.submodule_search_locations or []), spec.origin or ""] if spec else [""]
    return places[0]


def has_modules(folder: str) -> bool:
    """Return whether a folder contains a module or a package."""
    return any(Path(folder).glob("*.py")) or any(Path(folder).glob("*/*.py"))


def is_below(place: str, folder: str) -> bool:
    return place != "" and os.path.realpath(place).startswith(folder + os.sep)


def loaded(module: str, tried: str) -> Any:
    """Import the module; `tried` says where it was looked for. If it needs a running event loop, import it in one."""

    async def in_loop() -> Any:
        return importlib.import_module(module)

    try:
        try:
            return importlib.import_module(module)
        except RuntimeError as error:
            if "no running event loop" not in str(error):
                raise
        imported_module = asyncio.run(in_loop())
        IMPORTED_IN_LOOP.append(module)
        return imported_module
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            path = module.replace(".", "/")
            raise NoApplicationError(
                f"there is no {path}.py {tried}: expected the module:name of an application, such as shop.main:app"
            ) from None
        raise NoApplicationError(f"can't be imported: ModuleNotFoundError: {error}") from None
    except StartsServerError:
        raise NoApplicationError(f"{module} starts a server when it is imported: start it only in __main__") from None
    except BaseException as error:  # an application may even exit
        raise NoApplicationError(f"can't be imported: {type(error).__name__}: {error}{where(error)}") from None


def where(error: BaseException) -> str:
    """Return the line of the user's code that raised the error, as ` (shop/settings.py, line 3)`."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(str(Path.cwd()) + os.sep) and "site-packages" not in file:
            place = f" ({os.path.relpath(file)}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place


class StartsServerError(BaseException):
    """The import or the factory starts a server, which would never return."""


def refuse_servers(event: str, _: Any) -> None:
    """Raise StartsServerError if a server wants to listen (an audit hook); other sockets are none of our business."""
    if event != "socket.bind":
        return
    frame: Optional[types.FrameType] = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in SERVER_PACKAGES:
            raise StartsServerError
        frame = frame.f_back


def is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
    except BaseException:  # a parent package fails; the import will say why
        return True


def applications_in(module: Any) -> list[str]:
    """Return the names of the applications that a module has, and of functions that probably make one."""
    kinds = {}
    for key, value in vars(module).items():
        with contextlib.suppress(Exception):  # proxies, such as Flask's current_app, work only in a request
            kinds[key] = "" if key.startswith("_") else kind_of(value)
    found = [key for key, kind in kinds.items() if kind not in ("", "factory")]
    found = [key for key in found if known_class(getattr(module, key)) or key in LIKELY]
    found += [key for key, kind in kinds.items() if kind == "factory" and key in LIKELY]
    return sorted(found, key=lambda name: LIKELY.index(name) if name in LIKELY else len(LIKELY))


def application_below(package: str) -> str:
    """Return the module:name of an application in a usual module of a package, or an empty string."""
    for name in USUAL_MODULES:
        module = f"{package}.{name}"
        with contextlib.suppress(Exception, NoApplicationError, StartsServerError, SystemExit):
            if is_there(module) and (found := applications_in(importlib.import_module(module))):
                return f"{module}:{found[0]}"
    return ""


def attribute(module: Any, name: str) -> Any:
    """Return the object; raise NoApplicationError with the applications that the module does have."""
    thing = module
    for part in name.split("."):
        if not hasattr(thing, part):
            found = applications_in(module)
            use = f"use {module.__name__}:{found[0]}" if found else "expected an application in this module"
            raise NoApplicationError(f"{module.__name__} has no {name}: {use}")
        thing = getattr(thing, part)
    return thing


def application(thing: Any, name: str, is_call: bool) -> tuple[Any, bool, bool]:
    """Return the application, whether `thing` is a factory that was called, and whether it is a coroutine function."""
    kind = kind_of(thing)
    if kind and kind != "factory" and not is_call:
        return thing, False, False
    if kind != "factory":
        raise NoApplicationError(why_not(thing, name))
    is_async = inspect.iscoroutinefunction(thing)
    try:
        made = asyncio.run(thing()) if is_async else thing()
    except StartsServerError:
        raise NoApplicationError(
            f"{name}() starts a server itself: name the application that it serves, such as app:app, or write a suite "
            "with the command that starts it"
        ) from None
    except BaseException as error:
        raise NoApplicationError(f"{name}() fails: {type(error).__name__}: {error}{where(error)}") from None
    if kind_of(made) in ("", "factory"):
        raise NoApplicationError(f"{name}() returns a {type(made).__name__}; {EXPECTED}")
    return made, True, is_async


EXPECTED = "expected an ASGI, WSGI, aiohttp or Tornado application, or a function without arguments that returns one"


def why_not(thing: Any, name: str) -> str:
    names = required_parameters(thing) if callable(thing) else None
    if names and inspect.isroutine(thing):
        return (
            f"{name} needs {' and '.join(names)}: write a module with app = {name}(...), such as serve.py, "
            "and pass serve:app"
        )
    return f"{name} is a {type(thing).__name__}; {EXPECTED}"


def inner(thing: Any) -> Any:
    """Return the application of a known framework inside middleware, or the object itself."""
    found = thing
    for _ in range(8):
        if known_class(found):
            return found
        found = next((getattr(found, name) for name in WRAPPED if callable(getattr(found, name, None))), None)
        if found is None:
            break
    return thing


def starlette_routes(routes: Any, prefix: str = "") -> Iterator[Route]:
    for route in expanded(routes):
        path = prefix + (getattr(route, "path", None) or "")
        below = getattr(route, "routes", None)
        if methods := getattr(route, "methods", None):
            query = "&".join(f"{name}={{{name}}}" for name in required_query(route))
            answers = getattr(route, "endpoint", None)
            yield from ((method, f"{path}?{query}" if query else path, answers) for method in sorted(methods))
        elif isinstance(below, list):
            yield from starlette_routes(below, path)


def expanded(routes: Any) -> Iterator[Any]:
    """Yield all routes, including those of the routers that FastAPI resolves only when a request arrives."""
    routing = sys.modules.get("fastapi.routing")
    expand = getattr(routing, "iter_route_contexts", None)
    for each in expand(routes) if expand else routes:
        original = getattr(each, "original_route", None)
        yield original if original is not None and hasattr(original, "app") and not getattr(each, "path", "") else each


def required_query(route: Any) -> Iterator[str]:
    """Yield the query parameters without which FastAPI refuses a request to this route."""
    for field in getattr(getattr(route, "dependant", None), "query_params", ()):
        required = getattr(field, "required", None)
        if field.field_info.is_required() if required is None else required:
            yield getattr(field, "alias", None) or field.name


def flask_routes(app: Any) -> Iterator[Route]:
    for rule in app.url_map.iter_rules():
        if not rule.endpoint.endswith("static"):
            answers = app.view_functions.get(rule.endpoint)
            yield from ((method, rule.rule, answers) for method in sorted(rule.methods or ()))


def bottle_routes(app: Any) -> Iterator[Route]:
    return ((route.method, route.rule, route.callback) for route in app.routes)


def falcon_routes(app: Any) -> Iterator[Route]:
    from falcon.inspect import inspect_routes

    for route in inspect_routes(app):
        for method in route.methods:
            if not method.internal:
                yield method.method, route.path, getattr(method, "func", None)


def litestar_routes(app: Any) -> Iterator[Route]:
    for route in app.routes:
        if not route.path.startswith("/schema"):
            handlers = getattr(route, "route_handler_map", {})
            for method in sorted(getattr(route, "methods", ()), key=str):
                handler = handlers.get(method)
                yield (
                    str(method),
                    route.path,
                    getattr(handler[0] if isinstance(handler, tuple) else handler, "fn", None),
                )


def sanic_routes(app: Any) -> Iterator[Route]:
    return ((method, f"/{each.path}", each.handler) for each in app.router.routes for method in sorted(each.methods))


def aiohttp_routes(app: Any) -> Iterator[Route]:
    return ((route.method, route.resource.canonical, route.handler) for route in app.router.routes() if route.resource)


def tornado_routes(app: Any) -> Iterator[Route]:
    from tornado.web import RequestHandler

    for rule in (*app.wildcard_router.rules, *(rule for rule in app.default_router.rules)):
        pattern, handler = getattr(rule.matcher, "regex", None), rule.target
        if pattern is not None and inspect.isclass(handler):
            methods = [name for name in ("get", "post", "put", "patch", "delete") if hasattr(handler, name)]
            for name in methods:
                if getattr(handler, name) is not getattr(RequestHandler, name):
                    yield name.upper(), pattern.pattern.rstrip("$"), getattr(handler, name)


def django_routes(patterns: Any, prefix: str = "/") -> Iterator[Route]:
    for each in patterns:
        path = prefix + re.sub(r"^\^|\$$|\\Z$", "", str(each.pattern))
        if getattr(each, "app_name", None) == "admin":
            continue
        if hasattr(each, "url_patterns"):
            yield from django_routes(each.url_patterns, path)
        else:
            view = getattr(each.callback, "view_class", None) or getattr(each.callback, "cls", None)
            if view is None:
                yield "GET", path, each.callback
                continue
            own = {name: name for name in ("get", "post", "put", "patch", "delete") if hasattr(view, name)}
            actions = getattr(each.callback, "actions", None) or own  # Django REST framework: list, retrieve
            yield from ((method.upper(), path, (view, name)) for method, name in actions.items())


def routes_of(app: Any, framework: str) -> list[Route]:
    """Return the methods and paths that the application handles, without those of its documentation."""
    if framework in ("fastapi", "starlette"):
        own = (getattr(app, f"{name}_url", None) for name in ("openapi", "docs", "redoc", "swagger_ui_oauth2_redirect"))
        hidden = {path for path in own if path}
        found: Iterator[Route] = (route for route in starlette_routes(app.routes) if route[1] not in hidden)
    elif framework == "django":
        from django.urls import get_resolver

        found = django_routes(get_resolver().url_patterns)
    else:
        reader = globals().get({"quart": "flask"}.get(framework, framework) + "_routes")
        found = reader(app) if reader else iter(())
    wanted = ("GET", "POST", "PUT", "PATCH", "DELETE")
    all_methods = {"*": "GET", "ANY": "GET"}  # aiohttp and Bottle
    named = ((all_methods.get(method, method), path, answers) for method, path, answers in found)
    first: dict[tuple[str, str], Any] = {}
    for method, path, answers in named:
        if method in wanted:
            first.setdefault((method, path), answers)
    return [(*route, answers) for route, answers in first.items()][:MOST_ROUTES]


def function_of(method: str, answers: Any) -> Optional[dict[str, Any]]:
    """Return where the function that answers a request is defined, or None if this is unknown."""
    function = answers
    while isinstance(function, functools.partial):
        function = function.func
    owner, name = function if isinstance(function, tuple) else (function, method.lower())
    if inspect.isclass(owner):
        function = getattr(owner, name, None)
    try:
        function = inspect.unwrap(function)
    except ValueError:  # it wraps itself
        return None
    code = getattr(function, "__code__", None)
    if code is None or is_library(code.co_filename):
        return inheriting_class(owner) if inspect.isclass(owner) else None
    return {
        "name": function.__qualname__,
        "file": relative(code.co_filename),
        "line": code.co_firstlineno,  # of its first decorator
        "is_async": inspect.iscoroutinefunction(function),
        "is_method": inspect.isclass(owner) or inspect.ismethod(answers) or inspect.ismethod(function),
        "unmovable": unmovable(function),
    }


def inheriting_class(owner: type) -> Optional[dict[str, Any]]:
    """Return where a class is defined that inherits its methods from a library, or None if it is part of one, too."""
    try:
        file, line = inspect.getsourcefile(owner) or "", inspect.getsourcelines(owner)[1]
    except (OSError, TypeError):
        return None
    known = {"name": owner.__qualname__, "file": relative(file), "line": line, "is_async": False, "is_method": True}
    return None if is_library(file) else known


def is_library(file: str) -> bool:
    return "site-packages" in file or "dist-packages" in file


def relative(file: str) -> str:
    """Return the path of a file, relative to this folder if it is below it."""
    here = str(Path.cwd()) + os.sep
    return file[len(here) :] if file.startswith(here) else file


def unmovable(function: Any) -> list[str]:
    """Return the parameters of a function whose values may not be picklable: all but plain data."""
    try:
        parameters = inspect.signature(function).parameters.values()
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:  # a type that exists only for type checkers
        return list(function.__code__.co_varnames)
    return [
        each.name
        for each in parameters
        if type(each.default).__name__ in INJECTED or each.name == "request" or not is_plain(hints.get(each.name, str))
    ]


def is_plain(kind: Any) -> bool:
    """Return whether values of a type are data."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    metadata = getattr(kind, "__metadata__", ())
    if metadata:
        return not any(type(each).__name__ in INJECTED for each in metadata) and is_plain(inside[0])
    if origin is not None:
        return str(origin) == "typing.Literal" or all(is_plain(each) for each in inside if each is not ...)
    if kind in (Any, None, type(None)):
        return kind is not Any
    if not inspect.isclass(kind):
        return False
    is_known = kind.__module__ in ("builtins", "datetime", "uuid", "decimal", "pathlib", "ipaddress", "fractions")
    has_fields = any(hasattr(kind, name) for name in ("__dataclass_fields__", "model_fields", "__struct_fields__"))
    return is_known or has_fields or issubclass(kind, enum.Enum) or hasattr(kind, "_fields")


def accepted_host(app: Any, framework: str) -> Optional[str]:
    """Return a host that the application accepts: empty if it accepts 127.0.0.1, None if it accepts none."""
    if framework == "django":
        from django.conf import settings
        from django.http.request import validate_host

        hosts = settings.ALLOWED_HOSTS or ([LOOPBACK] if settings.DEBUG else [])
        if validate_host(LOOPBACK, hosts):
            return ""
    else:
        hosts = ["*"]
        for each in getattr(app, "user_middleware", ()):
            options = {**(getattr(each, "kwargs", None) or {}), **(getattr(each, "options", None) or {})}
            if getattr(each.cls, "__name__", "") == "TrustedHostMiddleware":
                hosts = list(options.get("allowed_hosts") or ["*"])
        if "*" in hosts or LOOPBACK in hosts:
            return ""
    # Django's `.shop.example` includes shop.example, but Starlette's `*.shop.example` does not.
    return next((re.sub(r"^\*\.", "www.", host).lstrip(".") for host in hosts if host), None)


def twin_of(module: str, name: str, framework: str) -> str:
    """Return Django's application for the other interface, such as config.asgi:application, or an empty string."""
    before, _, last = module.rpartition(".")
    other = {"asgi": "wsgi", "wsgi": "asgi"}.get(last)
    if framework != "django" or other is None:
        return ""
    twin = f"{before}.{other}".lstrip(".")
    try:
        return f"{twin}:{name}" if hasattr(importlib.import_module(twin), name) else ""
    except Exception:
        return ""


def patched_by() -> str:
    """Return the package that has replaced the threads of the standard library by its own, or an empty string."""
    if "gevent.monkey" in sys.modules and sys.modules["gevent.monkey"].is_module_patched("threading"):
        return "gevent"
    if "eventlet.patcher" in sys.modules and sys.modules["eventlet.patcher"].is_monkey_patched("thread"):
        return "eventlet"
    return ""


def version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package) if package else ""
    except importlib.metadata.PackageNotFoundError:
        return ""


def described(name: str) -> dict[str, Any]:
    """Import the application `module:name`, and describe it."""
    module, _, attributes = name.partition(":")
    began_s = time.monotonic()
    its_module, added = imported(module)
    wanted = attributes[:-2] if attributes.endswith("()") else attributes
    if not wanted:
        wanted = next(iter(applications_in(its_module)), "")
        if not wanted:
            inside = application_below(module)
            known = f"use {inside}" if inside else f"name it, such as {module}:app"
            raise NoApplicationError(f"no application was found in this module: {known}")
    found = attribute(its_module, wanted)
    app, is_factory, is_async = application(found, wanted, attributes.endswith("()"))
    import_s = time.monotonic() - began_s
    inside = inner(app)
    kind, framework = kind_of(app), (known_class(inside) or ("", ""))[1]
    try:
        routes, host = routes_of(inside, framework), accepted_host(inside, framework)
    except Exception as error:  # another version of the framework; the paths are only proposals
        print(f"routes of {framework}: {type(error).__name__}: {error}", file=sys.stderr)
        routes, host = [], ""
    if is_async and kind != "aiohttp":
        raise NoApplicationError(f"{wanted} is a coroutine function, which servers can't call; {EXPECTED}")
    return {
        "name": f"{module}:{wanted}",
        "kind": kind,
        "is_factory": is_factory,
        "is_async": is_async,
        "framework": framework,
        "version": version_of(framework),
        "routes": [route[:2] for route in routes],
        "functions": [function_of(method, answers) for method, _, answers in routes],
        "host": host,
        "twin": "" if is_factory else twin_of(module, wanted, framework),
        "import_from": added,
        "needs_loop": bool(IMPORTED_IN_LOOP),
        "patched_by": patched_by(),
        "file": getattr(its_module, "__file__", None) or "",
        "import_s": round(import_s, 3),
        "python": list(sys.version_info[:3]),
        "servers": {each: version_of(each.partition(".")[0].replace("_", "-")) for each in MODULES if is_there(each)},
    }


def main() -> None:
    """Report on stdout. Whatever the application prints goes to stderr."""
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path[0] = str(Path.cwd())
    sys.argv[1:], arguments = [], json.loads(sys.argv[1])  # applications may parse the arguments
    sys.addaudithook(refuse_servers)
    try:
        report = described(arguments["application"])
    except NoApplicationError as error:
        report = {"error": str(error)}
    reports.write(json.dumps(report) + "\n")
    reports.flush()
    os._exit(0)  # threads of the application may run on


if __name__ == "__main__":
    main()
