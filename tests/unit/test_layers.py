"""Import rules and conventions of the modules."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from conftest import ROOT, SERVERS
from source_code import lines_of_code, tree

MODULES = [
    ROOT / "bench.py",
    *SERVERS,
    *sorted((ROOT / "common").rglob("*.py")),
    *sorted((ROOT / "under_siege").rglob("*.py")),
]
SCRIPTS = sorted((ROOT / "scripts").glob("*.py"))
TESTS_TOO = [*MODULES, *SCRIPTS, *sorted((ROOT / "tests").rglob("*.py"))]
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 320, 40
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
STARTS_PROCESSES = {"subprocess", "multiprocessing", "concurrent.futures", "pty"}
JUDGES = ("record", "judge", "show", "compare")  # these packages only read results

# Each layer may import only itself and the layers above it in this list.
LAYERS = [
    "paths formatting secrets",
    "record",
    "load",
    "host",
    "suite",
    "judge",
    "measure",
    "show cli_options",
    "try_task trace capacity drill",
    "profile",
    "run",
    "compare",
    "report",
    "lesson",
    "cli __main__",
]
APART = "under_siege.subprocess_scripts"  # runs in the target's Python, and may import only `common`
GENERATORS = (f"{APART}.open_load", f"{APART}.client_load")  # run in the Python of the bench, and may import `load`
DRILL_TASK = "under_siege.subprocess_scripts.drill_task"  # the drill and its task share names of files


def name_of(path: Path) -> str:
    """Return the import name, for example `under_siege.formatting`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path): path for path in MODULES}


def layer_of(name: str) -> int:
    """Return the index of the layer to which a module of the bench belongs."""
    part = name.split(".")[1] if "." in name else "paths"
    return next(index for index, layer in enumerate(LAYERS) if part in layer.split())


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """Return all imported modules and names, including those in functions and under TYPE_CHECKING."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inside if inside <= NAMES.keys() else {node.module, *inside}
    return frozenset(found)


def import_pairs() -> Iterator[tuple[str, str]]:
    """Yield the importing and the imported module for each import between modules of the project."""
    for name, path in NAMES.items():
        yield from ((name, other) for other in imports(path) & NAMES.keys() if other != name)


def is_allowed(importer: str, imported: str) -> bool:
    if importer == "bench":
        return imported == "under_siege.cli"
    if not importer.startswith("under_siege"):  # common and servers
        return imported.startswith("common")
    if importer.startswith(APART):
        is_free = imported.startswith((APART, "common"))
        return is_free or (importer in GENERATORS and layer_of(imported) <= layer_of("under_siege.load"))
    if imported == DRILL_TASK:
        return importer.startswith("under_siege.drill")
    return imported.startswith("common") or layer_of(imported) <= layer_of(importer)


def test_modules_import_only_their_own_and_lower_layers() -> None:
    assert {f"{one} → {other}" for one, other in import_pairs() if not is_allowed(one, other)} == set()


def reached_from(name: str) -> set[str]:
    """Return all direct and indirect imports of a module."""
    found: set[str] = set()
    todo = {name}
    while todo:
        todo = {other for one in todo for other in imports(NAMES[one]) & NAMES.keys()} - found
        found |= todo
    return found


def test_there_are_no_import_cycles() -> None:
    assert {f"{one} → {other}" for one, other in import_pairs() if one in reached_from(other)} == set()


def test_packages_that_only_read_results_start_no_processes() -> None:
    for name, path in NAMES.items():
        if name.split(".")[1:2] and name.split(".")[1] in JUDGES:
            assert not imports(path) & STARTS_PROCESSES, name


def test_every_module_has_a_docstring() -> None:
    assert [path for path in [*MODULES, *SCRIPTS] if not ast.get_docstring(tree(path))] == []


def test_modules_have_at_most_320_lines_of_code() -> None:
    assert {path.name: lines for path in [*MODULES, *SCRIPTS] if (lines := lines_of_code(path)) > MOST_LINES} == {}


def test_functions_have_at_most_40_lines() -> None:
    long = {
        f"{path.name}: {node.name}"
        for path in TESTS_TOO
        for node in ast.walk(tree(path))
        if isinstance(node, FUNCTIONS) and node.end_lineno - node.lineno + 1 > MOST_LINES_OF_A_FUNCTION
    }
    assert long == set()


def test_no_file_contains_a_local_path() -> None:
    texts = [path for folder in ("docs", "scripts") for path in (ROOT / folder).iterdir()]
    for path in [*ROOT.glob("*.*"), *texts, *TESTS_TOO]:
        if path.is_file() and path.suffix != ".json":
            assert str(ROOT) not in path.read_text(), path


def test_the_architecture_page_names_files_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    paths = re.findall(r"`((?:under_siege|common|servers|tests)/[\w/.]*)`", page)
    assert len(paths) > 30
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_architecture_page_lists_every_package() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    packages = {path.parent.name for path in (ROOT / "under_siege").rglob("__init__.py")}
    assert [name for name in packages if f"{name}/`" not in page] == []
