"""Conventions of the source code and of the page about it."""

import ast
import re

from conftest import ROOT
from source_code import MODULES, NAMES, imports, lines_of_code, tree

SCRIPTS = sorted((ROOT / "scripts").glob("*.py"))
TESTS_TOO = [*MODULES, *SCRIPTS, *sorted((ROOT / "tests").rglob("*.py"))]
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 320, 40
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
STARTS_PROCESSES = {"subprocess", "multiprocessing", "concurrent.futures", "pty"}
JUDGES = ("record", "judge", "show", "compare")  # these packages only read results


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
