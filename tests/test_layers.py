"""Who may import whom, and what every file looks like."""

import ast
from pathlib import Path

import pytest
from conftest import ROOT, SERVERS

ALONE = sorted((ROOT / "common" / "alone").glob("*.py"))
COMMON = [*sorted((ROOT / "common").glob("*.py")), *ALONE]
HARNESS = sorted((ROOT / "common" / "harness").rglob("*.py"))
ALONE = sorted((ROOT / "common" / "alone").glob("*.py"))
REPORT = sorted((ROOT / "common" / "report").rglob("*.py"))
STARTS_PROCESSES = {"subprocess", "multiprocessing", "concurrent.futures", "pty"}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def below(path: Path, *packages: str) -> set[str]:
    return {name for name in imports(path) if any(name == one or name.startswith(f"{one}.") for one in packages)}


@pytest.mark.parametrize("path", SERVERS + COMMON + ALONE, ids=lambda path: str(path.relative_to(ROOT)))
def test_servers_and_what_they_share_know_nothing_of_harness_and_report(path: Path) -> None:
    assert not below(path, "common.harness", "common.report")


@pytest.mark.parametrize("path", HARNESS, ids=lambda path: path.stem)
def test_the_harness_knows_nothing_of_the_report(path: Path) -> None:
    assert not below(path, "common.report")


@pytest.mark.parametrize("path", REPORT, ids=lambda path: path.stem)
def test_the_report_knows_nothing_of_the_harness_and_starts_no_process(path: Path) -> None:
    assert not below(path, "common.harness")
    assert not below(path, *STARTS_PROCESSES)


@pytest.mark.parametrize(
    "path", SERVERS + COMMON + ALONE + HARNESS + REPORT, ids=lambda path: str(path.relative_to(ROOT))
)
def test_every_module_says_in_its_first_line_what_it_owns(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_nothing_of_this_machine_is_in_the_project() -> None:
    for path in [*ROOT.glob("*.*"), *SERVERS, *COMMON, *ALONE, *HARNESS, *REPORT, *(ROOT / "scripts").glob("*")]:
        if path.is_file() and path.suffix != ".json":
            assert str(ROOT) not in path.read_text(), path
