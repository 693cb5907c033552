"""User modules and servers that have the name of a project module or server, and Pythons with several names."""

import asyncio
import sys
from pathlib import Path

import pytest
from conftest import TESTS, thorough
from plans import plan_of

from under_siege.host.interpreter import interpreter
from under_siege.record.result import load
from under_siege.suite.expected_response import try_task

WORK = "import time\n\ndef work():\n    time.sleep(0.02)\n    return 'of the user'\n"


def write(path: Path, text: str = WORK) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


MODULES = {
    "common.py": "common:work",
    "common/__init__.py": "common:work",
    "common/jobs.py": "common.jobs:work",
    "common/task.py": "common.task:work",
    "task.py": "task:work",
    "bench.py": "bench:work",
}


@pytest.mark.parametrize("file", thorough(MODULES, ["common/task.py", "bench.py"]))
def test_a_task_module_may_have_the_name_of_a_project_module(file, tmp_path, monkeypatch) -> None:
    write(tmp_path / file)
    monkeypatch.chdir(tmp_path)
    assert asyncio.run(try_task(MODULES[file], interpreter())).answer == b"of the user"


def test_a_user_package_named_common_is_imported_if_its_directory_is_on_pythonpath(tmp_path, monkeypatch) -> None:
    write(tmp_path / "common" / "task.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert asyncio.run(try_task("common.task:work", interpreter())).answer == b"of the user"


def test_a_user_module_named_common_that_fails_to_import_causes_an_error(run_cli, tmp_path) -> None:
    write(tmp_path / "common.py", "import no_such_module\n")
    refused = run_cli("run", "3", "--task", "common:work")
    assert refused.returncode == 2
    assert "ModuleNotFoundError: No module named 'no_such_module'" in refused.stderr


SERVER = f"""'''Serves, on a --port.'''
import sys

sys.path.append({str(TESTS / "servers")!r})
from minimal_server import serve

from common.options import server_options

serve(server_options())
"""


def test_servers_with_the_same_name_are_measured_and_traced_with_a_task_in_a_module_named_common(
    run_cli, tmp_path
) -> None:
    write(tmp_path / "common.py")
    for file in ("a/2_app.py", "b/2_app.py", "b/bare.py"):
        write(tmp_path / file, SERVER)
    assert "of the user" in run_cli("try", "common:work").stdout
    quick = ("--rounds", "1", "--time", "0.3s", "--users", "2", "--trace", "--out", "r.json")
    ran = run_cli("run", "a/2_app.py", "b/2_app.py", "b/bare.py", "4", "--task", "common:work", *quick)
    result = load(tmp_path / "r.json")
    names = {"a/2_app", "b/2_app", "b/bare", "4_async_processexecutor"}
    assert {record.server: record.failure for record in result.records} == dict.fromkeys([*names, "bare"])
    assert {trace.server for trace in result.traces} == names
    assert [name for name in names if name not in ran.stdout] == []
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
