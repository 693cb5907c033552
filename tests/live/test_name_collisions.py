"""User modules and servers that have the name of a project module or server, and Pythons with several names."""

import asyncio
import re
import sys
from pathlib import Path

import pytest
from conftest import TESTS, WAITING
from plans import plan_of

from under_siege.host.interpreter import interpreter
from under_siege.record.result import load
from under_siege.suite.expected_response import try_task

WORK = "import time\n\ndef work():\n    time.sleep(0.02)\n    return 'of the user'\n"


def write(path: Path, text: str = WORK) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("file", "task"),
    [
        ("common.py", "common:work"),
        ("common/__init__.py", "common:work"),
        ("common/jobs.py", "common.jobs:work"),
        ("common/task.py", "common.task:work"),
        ("task.py", "task:work"),
        ("bench.py", "bench:work"),
    ],
)
def test_a_task_module_may_have_the_name_of_a_project_module(file, task, tmp_path, monkeypatch) -> None:
    write(tmp_path / file)
    monkeypatch.chdir(tmp_path)
    assert asyncio.run(try_task(task, interpreter())).answer == b"of the user"


def test_a_user_package_named_common_is_imported_if_its_directory_is_on_pythonpath(tmp_path, monkeypatch) -> None:
    write(tmp_path / "common" / "task.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert asyncio.run(try_task("common.task:work", interpreter())).answer == b"of the user"


def test_try_and_run_accept_a_task_in_a_module_named_common(run_cli, tmp_path) -> None:
    write(tmp_path / "common.py")
    assert "worth a run" in run_cli("try", "common:work").stdout
    run_cli("run", "4", "--task", "common:work", "--rounds", "1", "--time", "0.3s", "--users", "2", "--out", "r.json")
    records = load(tmp_path / "r.json").records
    assert {record.server for record in records} == {"bare", "4_async_processexecutor"}
    assert [record.failure for record in records] == [None] * 2


def test_a_user_module_named_common_that_fails_to_import_causes_an_error(run_cli, tmp_path) -> None:
    write(tmp_path / "common.py", "import no_such_module\n")
    refused = run_cli("run", "3", "--task", "common:work")
    assert refused.returncode == 2
    assert "ModuleNotFoundError: No module named 'no_such_module'" in refused.stderr


def test_common_is_the_project_package_if_the_user_has_no_module_of_that_name(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert asyncio.run(try_task("common.task:primes", interpreter())).answer == b"4017"


SERVER = f"""'''Serves, on a --port.'''
import sys

sys.path.append({str(TESTS / "servers")!r})
from minimal_server import serve

from common.options import server_options

serve(server_options())
"""


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["a/app.py", "b/app.py"], ["a/app", "b/app"]),
        (["a/app.py", "a/other.py"], ["app", "other"]),
        (["a/app.py", "a/app.py"], ["app"]),
        (["a/bare.py"], ["a/bare"]),
        (["a/x/app.py", "b/x/app.py", "c/app.py", "c/other.py"], ["a/x/app", "b/x/app", "c/app", "other"]),
    ],
)
def test_servers_with_the_same_name_get_the_directory_name_as_prefix(files, names, tmp_path) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(SERVER)
    assert [case.server for case in plan_of(*(tmp_path / file for file in files)).cases] == names


def test_a_strategy_and_a_server_of_the_same_name_both_get_a_directory_prefix(tmp_path) -> None:
    write(tmp_path / "mine" / "2_async.py", SERVER)
    assert [case.server for case in plan_of("2", tmp_path / "mine" / "2_async.py").cases] == [
        "servers/2_async",
        "mine/2_async",
    ]


def test_servers_with_the_same_name_are_measured_and_traced_separately(run_cli, tmp_path) -> None:
    for file in ("a/2_app.py", "b/2_app.py", "b/bare.py"):
        write(tmp_path / file, SERVER)
    quick = ("--rounds", "1", "--time", "0.3s", "--users", "2", "--trace", *WAITING, "--out", "r.json")
    ran = run_cli("run", "a/2_app.py", "b/2_app.py", "b/bare.py", *quick)
    result = load(tmp_path / "r.json")
    names = {"a/2_app", "b/2_app", "b/bare"}
    assert {record.server for record in result.records} == {*names, "bare"}
    assert {trace.server for trace in result.traces} == names
    assert [record.failure for record in result.records] == [None] * 4
    assert names <= set(
        re.findall(r"[ab]/\w+", ran.stdout)
    )  # in the table or, for a server without a response, below it
    urls = {record.server: record.tool_command[-1] for record in result.records if not record.is_ceiling}
    ports = {name: int(url.rstrip("/").rpartition(":")[2]) for name, url in urls.items()}
    assert ports["a/2_app"] >= 8001  # the port for the number 2, or the next free port
    assert ports["b/bare"] >= 8000


def test_a_python_given_by_several_paths_is_measured_once(tmp_path) -> None:
    base = Path(sys.executable).resolve()
    link = tmp_path / "my_python"
    link.symlink_to(base)
    here = Path(sys.executable).with_name("python")
    names = (str(here), str(here.with_name("python3")), str(base), str(link))
    plan = plan_of("2", pythons=names)
    paths = [plan.pythons[case.python].path for case in plan.cases]
    assert paths == [names[0], names[2]]  # a virtual environment and its base are different Pythons
    assert plan_of("2", pythons=names[2:]).cases[0].python == plan.cases[0].python.split()[0]
