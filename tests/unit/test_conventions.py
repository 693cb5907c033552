"""Conventions of the source code and of the page about it."""

import ast
import os
import re
import socket
import subprocess
from collections.abc import Callable

import pytest
from conftest import ROOT, TESTS
from golden_file import GOLDEN, sections
from source_code import MODULES, NAMES, imports, tree

SCRIPTS = sorted((ROOT / "scripts").glob("*.py"))
TESTS_TOO = [*MODULES, *SCRIPTS, *sorted(TESTS.rglob("*.py"))]
STARTS_PROCESSES = {"subprocess", "multiprocessing", "concurrent.futures", "pty"}
JUDGES = ("record", "judge", "show", "compare")  # these packages only read results


def test_packages_that_only_read_results_start_no_processes() -> None:
    for name, path in NAMES.items():
        if name.split(".")[1:2] and name.split(".")[1] in JUDGES:
            assert not imports(path) & STARTS_PROCESSES, name


def test_every_module_has_a_docstring() -> None:
    assert [path for path in [*MODULES, *SCRIPTS] if not ast.get_docstring(tree(path))] == []


def test_every_script_is_executable_and_names_its_interpreter() -> None:
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.is_file()]
    assert {path.name for path in scripts if path.suffix != ".py"} == {"setup"}
    for path in scripts:
        assert os.access(path, os.X_OK), path.name
        program = "python3" if path.suffix == ".py" else "bash"
        assert path.read_text().startswith(f"#!/usr/bin/env {program}\n"), path.name


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


def test_no_two_test_files_have_the_same_name() -> None:
    """Pytest can't collect both, but only --all collects tests/extended."""
    names = [path.name for path in TESTS.rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_every_section_of_a_golden_file_belongs_to_a_test() -> None:
    defined = {
        f"{path.stem.removeprefix('test_')}: {name}"
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
    written = {f"{path.stem}: {name.partition('[')[0]}" for path in GOLDEN.glob("*.txt") for name in sections(path)}
    assert written - defined == set()


@pytest.mark.parametrize(
    "act",
    [
        lambda: subprocess.run(["true"]),
        lambda: os.posix_spawn("/bin/true", ["true"], {}),
        lambda: socket.create_connection(("127.0.0.1", 9)),
    ],
    ids=["process", "spawned process", "connection"],
)
def test_a_unit_test_fails_if_it_starts_a_process_or_uses_the_network(act: Callable[[], object]) -> None:
    with pytest.raises(pytest.fail.Exception, match="tests/unit"):
        act()
