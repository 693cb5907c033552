"""Strategies: how they are found, and how each runs a task, which its file declares or its imports show."""

from pathlib import Path

import pytest
from conftest import SERVERS

from common.errors import BadInputError
from under_siege.suite import server_files
from under_siege.suite.server_files import all_strategies, read_strategy
from under_siege.suite.suite import Kind

SERVER = '"""Serves, on a --port."""\n'
KINDS = {
    "1": Kind.IN_LINE,
    "2": Kind.IN_LINE,
    "3": Kind.THREADS,
    "4": Kind.PROCESSES,
    "5": Kind.SLICES,
    "6": Kind.GREENLETS,
    "7": Kind.INTERPRETERS,
    "8": Kind.PREFORK,
    "9": Kind.PROCESSES,
    "10": Kind.PROCESSES,
    "11": Kind.THREADS,
    "12": Kind.PROCESSES,
    "13": Kind.PROCESSES,
}


def test_strategies_are_sorted_by_the_numbers_in_their_file_names() -> None:
    assert [strategy.name for strategy in all_strategies()] == [path.stem for path in SERVERS]


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("from concurrent.futures import ThreadPoolExecutor", Kind.THREADS),
        ('from new_library import Pool\n\nKIND = "processes"', Kind.PROCESSES),
        ('from concurrent.futures import ThreadPoolExecutor\n\nKIND = "sub-interpreters"', Kind.INTERPRETERS),
        ("from new_library import Pool", Kind.UNKNOWN),
    ],
)
def test_the_kind_of_a_strategy_is_declared_or_derived(lines: str, kind: Kind, tmp_path: Path) -> None:
    (tmp_path / "14_new.py").write_text(SERVER + lines)
    assert read_strategy(tmp_path / "14_new.py").kind == kind


def test_an_unknown_kind_causes_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "14_new.py").write_text(f'{SERVER}KIND = "magic"')
    with pytest.raises(BadInputError, match=r"KIND must be one of .*'processes'") as caught:
        read_strategy(tmp_path / "14_new.py")
    assert "\n" not in str(caught.value)


def test_the_kind_of_a_strategy_is_inferred_from_its_code() -> None:
    assert {str(one.number): one.kind for one in all_strategies()} == KINDS


@pytest.mark.parametrize("name", ["3", "3_async_threadexecutor"])
def test_finding_a_strategy_reads_only_the_file_of_that_strategy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(server_files, "read_strategy", lambda path: read.append(path.stem))
    server_files.find_strategy(name)
    assert read == ["3_async_threadexecutor"]


@pytest.mark.parametrize(
    ("file", "given", "meant"),
    [
        ("app.py", "app.py", "app:app"),
        ("shop/main.py", "shop/main.py", "shop.main:app"),
        ("shop/main.py", "shop.main.app", "shop.main:app"),
        ("src/shop/main.py", "shop.main.app", "shop.main:app"),
    ],
)
def test_an_application_that_is_named_in_another_way_gets_its_name(
    file: str, given: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text('"""An important application."""\nimport flask\napp = flask.Flask("app")\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInputError, match=f"module:name, {meant}$"):
        server_files.find_strategy(given)


def test_a_script_that_starts_an_application_leads_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.py").write_text("app = Flask('app')\n")
    (tmp_path / "run.py").write_text("import app\napp.start()\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInputError, match=r"or write a suite; this folder has app:app$"):
        server_files.find_strategy("run.py")
