"""What a user calls as we call something of ours: their modules, their servers, their Pythons."""

import asyncio
from pathlib import Path

import pytest
from conftest import SERVERS, serving

from common.harness.expectation import try_task
from common.harness.interpreter import interpreter
from common.record import BARE, load

WORK = "import time\n\ndef work():\n    time.sleep(0.02)\n    return 'of the user'\n"


def write(path: Path, text: str = WORK) -> None:
    path.parent.mkdir(exist_ok=True)
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
        ("trial.py", "trial:work"),
        ("servers.py", "servers:work"),
    ],
)
def test_a_task_may_be_in_a_module_that_is_called_as_one_of_ours(file, task, tmp_path, monkeypatch) -> None:
    write(tmp_path / file)
    monkeypatch.chdir(tmp_path)
    assert asyncio.run(try_task(task, interpreter())).answer == b"of the user"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert asyncio.run(try_task(task, interpreter())).answer == b"of the user"


@pytest.mark.parametrize("task", ["common:work", "beside_it:work"])
@pytest.mark.parametrize("script", SERVERS, ids=lambda path: path.stem)
def test_every_server_performs_a_task_where_the_user_has_a_common(script, task, tmp_path) -> None:
    write(tmp_path / "common.py")
    write(tmp_path / "beside_it.py")
    with serving(script, "--task", task, "--workers", "2", cwd=tmp_path) as served:
        assert served.request("/").body == "of the user"


def test_it_is_tried_and_measured_like_any_other(bench, tmp_path) -> None:
    write(tmp_path / "common.py")
    assert "worth a run" in bench("try", "common:work").stdout
    bench("run", "3", "4", "--task", "common:work", "--rounds", "1", "--time", "1s", "--users", "2", "--out", "r.json")
    records = load(tmp_path / "r.json").records
    assert {record.server for record in records} == {BARE, "3_async_threadexecutor", "4_async_processexecutor"}
    assert [record.failure for record in records] == [None] * 3


def test_a_common_of_the_user_that_fails_is_told_of_in_one_line(bench, tmp_path) -> None:
    write(tmp_path / "common.py", "import no_such_module\n")
    refused = bench("run", "3", "--task", "common:work")
    assert refused.returncode == 2
    assert "ModuleNotFoundError: No module named 'no_such_module'" in refused.stderr


def test_in_a_folder_without_one_common_is_ours(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert asyncio.run(try_task("common.builtin_tasks:primes", interpreter())).answer == b"4017"
