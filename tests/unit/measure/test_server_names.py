"""Servers of the same name are told apart by their directories."""

import pytest
from plans import plan_of
from sample_applications import write

SERVER = '"""Serves, on a --port."""\n'


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
        write(tmp_path, {file: SERVER})
    assert [case.server for case in plan_of(*(tmp_path / file for file in files)).cases] == names


def test_a_strategy_and_a_server_of_the_same_name_both_get_a_directory_prefix(tmp_path) -> None:
    write(tmp_path, {"mine/2_async.py": SERVER})
    assert [case.server for case in plan_of("2", tmp_path / "mine" / "2_async.py").cases] == [
        "servers/2_async",
        "mine/2_async",
    ]
