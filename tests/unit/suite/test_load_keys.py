"""Load keys of suites: commands that generate their own load support or reject each key."""

import sys
from pathlib import Path

import pytest
from command import invoke

from under_siege.measure.plan import make_plan
from under_siege.suite.expected_response import Expectation
from under_siege.suite.selection import CAPACITY, DRILL, RUN_TRACE, TRACE, refuse_unsupported, suite_of

SERVER = '[ping]\npath = "/ping"\n[servers.one]\ncommand = "serve {port}"\n'
LOCUST = '[load]\ntool = "locust"\n'
OF_OWN_LOAD = {CAPACITY, DRILL, TRACE}
REJECTED = {  # the suite, the key, and the commands that reject it
    "script": (LOCUST + 'script = "visit.py"\n' + SERVER, "load.script", OF_OWN_LOAD | {RUN_TRACE}),
    "options": (f'{LOCUST}options = ["--header=A:b"]\n{SERVER}', "load.options", OF_OWN_LOAD | {RUN_TRACE}),
    "jobs": ('[load]\ntool = "jobs"\npath = "/jobs"\n' + SERVER, "load.tool", OF_OWN_LOAD | {RUN_TRACE}),
    "files": ('[load]\ntool = "wrk"\npath = "/{file}"\nfiles = "."\n' + SERVER, "load.files", {CAPACITY, DRILL}),
    "check": ('[expect]\ncheck = "look {url}"\n' + SERVER, "expect.check", OF_OWN_LOAD),
    "warm-up": ("[load]\nwarm_up = 100\n" + SERVER, "load.warm_up", OF_OWN_LOAD),
    "warm-up of a server": (SERVER + 'warm_up = "2s"\n', "servers.one.warm_up", OF_OWN_LOAD),
    "warm-up of the ceiling": (
        f'{SERVER}[servers.top]\ncommand = "serve {{port}}"\nceiling = true\nwarm_up = 3\n',
        "servers.top.warm_up",
        OF_OWN_LOAD,
    ),
    "own network": (
        '[load]\nown_network = true\n[servers.one]\nurl = "http://127.0.0.1:8000"\n',
        "load.own_network",
        OF_OWN_LOAD | {RUN_TRACE},
    ),
}
SUPPORTED = {
    "amount of load": '[load]\ntool = "ab"\nusers = [3]\nrequests = 50\n' + SERVER,
    "duration of the load": '[load]\ntool = "wrk"\nthreads = 2\ntime = "9s"\n' + SERVER,
    "workers of Locust": f"{LOCUST}locust_workers = 2\n{SERVER}",
    "expected response": '[load]\npath = "/a?b=c"\nkeep_alive = [false, true]\n[expect]\nstatus = 404\nbody = "any"\n'
    + SERVER,
    "headers": SERVER + 'headers = { X-Served-By = "it" }\n',
    "no warm-up": "[load]\nown_network = 200\nwarm_up = 0\n" + SERVER,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "visit.py").write_text("def visit(user): ...\n")
    return tmp_path


@pytest.mark.parametrize("command", [CAPACITY, DRILL, TRACE, RUN_TRACE])
@pytest.mark.parametrize("name", REJECTED)
def test_an_unsupported_key_causes_a_one_line_error(name: str, command: str, folder: Path) -> None:
    text, key, commands = REJECTED[name]
    (folder / "shop.toml").write_text(text)
    if command not in commands:
        refuse_unsupported(command, suite_of([str(folder / "shop.toml")]))
        return
    what, *options = command.split()
    ended = invoke(what, "shop.toml", *options, folder=folder)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert f"shop.toml: {key}: " in ended.stderr


@pytest.mark.parametrize("command", [CAPACITY, DRILL, TRACE, RUN_TRACE])
@pytest.mark.parametrize("name", SUPPORTED)
def test_supported_keys_are_accepted(name: str, command: str, folder: Path) -> None:
    (folder / "shop.toml").write_text(SUPPORTED[name])
    refuse_unsupported(command, suite_of([str(folder / "shop.toml")]))


def test_the_expected_response_has_the_headers_set_for_the_server(folder: Path) -> None:
    (folder / "shop.toml").write_text(
        f"{SERVER}headers = {{ X-Served-By = '{{size}}' }}\n[axes]\nsize = [1, 2]\n".replace(
            "serve {port}", "serve {port} {size}"
        )
    )
    plan = make_plan(suite_of([str(folder / "shop.toml")]), {"python": [sys.executable]}, time_s=1, rounds=1)
    expectations = {case.work: Expectation(b"pong", 0.1, 0.1) for case in plan.cases}
    headers = [plan.expected_of(case, expectations).headers for case in plan.cases]
    assert headers == [(("X-Served-By", "1"),), (("X-Served-By", "2"),)]
