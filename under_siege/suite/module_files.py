"""Find the modules of a user's project by their files, without importing them."""

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from under_siege.formatting import legible
from under_siege.record.files import read_limited

_ROOTS = ("", "src")  # folders of a project from which servers import
_MOST_BYTES = 1_000_000
_SETTINGS = re.compile(r"""DJANGO_SETTINGS_MODULE["'\]]*\s*[,=]\s*["']([\w.]+)["']""")
_APPLICATION = re.compile(
    r"^(\w*app|application|api)\s*(?::[^=\n]+)?=\s*[\w.]*"
    r"(?:[Aa]pp|[Aa]pplication|API|Flask|Starlette|Litestar|Quart|Sanic|Bottle)\("
    r"|^(?:async )?def ((?:create|make|get|build|init)_app)\(",
    re.MULTILINE,
)
_USUAL = ("main", "app", "asgi", "wsgi")  # names of modules with applications
_OTHER_CODE = ("tests", "test", "docs", "examples", "migrations", "venv", "env", "build")
_MOST_FOLDERS, _DEEPEST = 500, 3  # limits of a search


def is_in(place: Path, module: str) -> bool:
    """Return whether a folder has the file of a module, or the folder of a package."""
    path = place.joinpath(*module.split("."))
    return path.is_dir() or any(path.parent.glob(f"{path.name}.*"))


def is_here(module: str, folder: Path) -> bool:
    """Return whether servers that run in a folder may import a module from there."""
    return any(is_in(folder / root, module) for root in _ROOTS)


def hides_others(module: str, folder: Path) -> bool:
    """Return whether a module of a folder, or a package with __init__.py, hides an installed one of the same name."""
    places = [folder.joinpath(root, *module.split(".")) for root in _ROOTS]
    return any((place / "__init__.py").is_file() or place.with_suffix(".py").is_file() for place in places)


def elsewhere(module: str, folder: Path) -> str:
    """Say in which folder below a module is, such as a member of a workspace; return an empty string if in none."""
    for above in ("*", "*/*"):
        for place in sorted(folder.glob(above)):
            shown = place.relative_to(folder)
            if all(map(_is_code, shown.parts)) and any(hides_others(module, place / root) for root in _ROOTS):
                return f"it is in {legible(str(shown))}: run the command there"
    return ""


def right_place(name: str, package: str, folder: Path) -> str:
    """Say where to run the command, and for which name, if an application imports a package from another folder.

    Return an empty string if the package is neither in a folder between this one and the application, nor above.
    """
    module, _, attribute = name.partition(":")
    parts = module.split(".")
    for count in range(1, len(parts)):
        place = Path(*parts[:count])
        if is_in(folder / place, package):
            meant = f"{'.'.join(parts[count:])}:{attribute}".rstrip(":")
            where = "name it" if str(place) == "src" else "run the command there for"
            return f"{package} is in {legible(str(place))}: {where} {meant}"
    for count, above in enumerate(folder.resolve().parents[:2], 1):
        inside = folder.resolve().relative_to(above).parts
        if inside[0] == package:
            return f"{package} is in {'/'.join(['..'] * count)}: run the command there for {'.'.join(inside)}.{name}"
    return ""


def name_in_package(name: str, folder: Path) -> str:
    """Say where to run the command, and for which name, if this folder is a package, as relative imports require."""
    place = folder.resolve()
    inside = [place.name]
    while (place / "__init__.py").is_file() and (place.parent / "__init__.py").is_file():
        place = place.parent
        inside.insert(0, place.name)
    above = "/".join([".."] * len(inside))
    return f"this folder is a package: run the command in {above} for {'.'.join(inside)}.{name}"


def likely_application(folder: Path) -> str:
    """Say which application this folder or one below it probably has, or return an empty string."""
    found = [each for file in _sources(folder) for each in _application_in(file, folder)]
    if not found:
        return ""
    place, name = min(found, key=lambda each: (each[0].parts, _is_unusual(each[1]), each[1].count(".")))
    return f"this folder has {name}" if place == Path() else f"{legible(str(place))} has {name}: run the command there"


def _sources(folder: Path) -> Iterator[Path]:
    """Yield the files of a project that may have an application, at most three folders below this one."""
    for place, names, files in itertools.islice(os.walk(folder), _MOST_FOLDERS):
        depth = len(Path(place).relative_to(folder).parts)
        names[:] = sorted(filter(_is_code, names)) if depth < _DEEPEST else []
        yield from (Path(place, file) for file in sorted(files) if file.endswith(".py") and _is_code(file))


def _is_code(name: str) -> bool:
    is_other = name.startswith((".", "test_")) or name.endswith(("-packages", "_modules"))
    return not is_other and name.removesuffix(".py") not in _OTHER_CODE


def _is_unusual(name: str) -> bool:
    return name.partition(":")[0].rpartition(".")[2] not in _USUAL


def _application_in(file: Path, folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folder, relative to this one, from which a file is imported, and module:name of its application."""
    parts = file.relative_to(folder).with_suffix("").parts
    try:
        source = _APPLICATION.search(read_limited(file, most_bytes=_MOST_BYTES).decode(errors="replace"))
    except (OSError, ValueError):
        return
    if source is None:
        return
    count = len(parts) - 1  # of the folders from which it is not imported
    while count > 0 and folder.joinpath(*parts[:count], "__init__.py").is_file():
        count -= 1
    above = parts[: count - 1] if count and parts[count - 1] == "src" else parts[:count]
    module = ".".join(part for part in parts[count:] if part != "__init__")
    if parts[-1].isidentifier() and module:
        yield Path(*above), legible(f"{module}:{source[1] or source[2]}")


def django_application(file: Path) -> str:
    """Return the module:name of the application of a Django project, from its manage.py, or an empty string."""
    try:
        text = read_limited(file, most_bytes=_MOST_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return ""
    found = _django_modules(text, file.parent) if "DJANGO_SETTINGS_MODULE" in text else iter(())
    return next((f"{module}:application" for module in found), "")


def _django_modules(text: str, folder: Path) -> Iterator[str]:
    """Yield modules with the usual names of Django's applications; first those beside the settings."""
    settings = _SETTINGS.search(text)
    parts = settings[1].split(".") if settings else []
    packages = [".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]
    packages += sorted(path.name for path in folder.iterdir() if path.name.isidentifier())
    for package in packages:
        yield from (each for name in ("wsgi", "asgi") if hides_others(each := f"{package}.{name}", folder))
