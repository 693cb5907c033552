"""Who may import whom, and what every module looks like."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from conftest import ROOT, SERVERS

MODULES = [ROOT / "bench.py", *SERVERS, *sorted((ROOT / "common").rglob("*.py"))]
SCRIPTS = sorted((ROOT / "scripts").glob("*.py"))
TESTS_TOO = [*MODULES, *SCRIPTS, *sorted((ROOT / "tests").rglob("*.py"))]
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 250, 40
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
STARTS_PROCESSES = {"subprocess", "multiprocessing", "concurrent.futures", "pty"}

# Wing → the wings that it may import, beside itself and what is for all.
FOR_ALL = ("errors", "contract", "packages")
NUCLEUS = "task cpus descent worker"
BELOW_A_PAGE = "model report.charts report.words report.judging report.figures report.numbers"
MAY_IMPORT = {
    "bench": "command_line nucleus model harness report report.judging report.words report.dresses",
    "command_line": "model",
    "lesson": f"command_line nucleus harness report.page report.dresses report {BELOW_A_PAGE}",
    "servers": "serving nucleus",
    "serving": "nucleus",
    "alone": "nucleus",
    "nucleus": "",
    "errors": "",
    "contract": "",
    "packages": "",
    "model": "",
    "load": "model",
    "harness": "load model nucleus",  # it starts what is in alone, by its name
    "report": f"report.page report.dresses {BELOW_A_PAGE}",
    "report.page": BELOW_A_PAGE,
    "report.dresses": BELOW_A_PAGE,
    "report.charts": "model report.words report.judging report.figures report.numbers",
    "report.words": "model report.judging report.figures report.numbers",
    "report.judging": "model report.figures report.numbers",
    "report.figures": "model report.numbers",
    "report.numbers": "",
}


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    """As it is imported: `under_siege.formatting`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path): path for path in MODULES}


def wing_of(name: str) -> str:
    """The folder that it is in, below `common`; of what lies there itself, nucleus or its own name."""
    inside = name.removeprefix("common.").split(".")
    if inside[0] in (*NUCLEUS.split(), "common"):
        return "nucleus"
    return max((wing for wing in MAY_IMPORT if inside[: wing.count(".") + 1] == wing.split(".")), default=name, key=len)


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """All modules and names that it imports, wherever it does: in functions and under TYPE_CHECKING, too."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inside if inside <= NAMES.keys() else {node.module, *inside}
    return frozenset(found)


def arrows() -> Iterator[tuple[str, str]]:
    """Which of our modules imports which."""
    for name, path in NAMES.items():
        yield from ((name, other) for other in imports(path) & NAMES.keys() if other != name)


def is_allowed(importer: str, imported: str) -> bool:
    wing, other = wing_of(importer), wing_of(imported)
    return other in (wing, *FOR_ALL, *MAY_IMPORT[wing].split())


def test_every_module_is_in_a_wing() -> None:
    assert {name for name in NAMES if wing_of(name) not in MAY_IMPORT} == set()


def test_who_imports_whom_is_as_it_is_meant() -> None:
    assert {f"{one} → {other}" for one, other in arrows() if not is_allowed(one, other)} == set()


def reached_from(name: str) -> set[str]:
    """All that it imports, and what these import, and so on."""
    found: set[str] = set()
    todo = {name}
    while todo:
        todo = {other for one in todo for other in imports(NAMES[one]) & NAMES.keys()} - found
        found |= todo
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert {f"{one} → {other}" for one, other in arrows() if one in reached_from(other)} == set()


def test_a_report_starts_no_process() -> None:
    for name, path in NAMES.items():
        if name.startswith("common.report"):
            assert not imports(path) & STARTS_PROCESSES, name


def test_every_module_says_in_its_first_line_what_it_owns() -> None:
    assert [path for path in [*MODULES, *SCRIPTS] if not ast.get_docstring(tree(path))] == []


def lines_of_code(path: Path) -> int:
    """Without empty lines, comments and docstrings."""
    prose: set[int] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node
        ):
            prose.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(path.read_text().splitlines(), 1)
    return sum(1 for number, line in lines if line.strip(" #") and line.strip()[0] != "#" and number not in prose)


def test_no_module_is_two_things() -> None:
    assert {path.name: lines for path in [*MODULES, *SCRIPTS] if (lines := lines_of_code(path)) > MOST_LINES} == {}


def test_no_function_is_longer_than_a_page() -> None:
    long = {
        f"{path.name}: {node.name}"
        for path in TESTS_TOO
        for node in ast.walk(tree(path))
        if isinstance(node, FUNCTIONS) and node.end_lineno - node.lineno + 1 > MOST_LINES_OF_A_FUNCTION
    }
    assert long == set()


def test_nothing_of_this_machine_is_in_the_project() -> None:
    texts = [path for folder in ("docs", "scripts") for path in (ROOT / folder).iterdir()]
    for path in [*ROOT.glob("*.*"), *texts, *TESTS_TOO]:
        if path.is_file() and path.suffix != ".json":
            assert str(ROOT) not in path.read_text(), path
