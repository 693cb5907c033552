"""From a suite to the commands of its servers: what they need, their environment, their warm-up and their files."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from fake_load import SilentWatcher
from suite_plans import SERVERS, plan_in, start_in

from common.errors import BadInputError
from under_siege.drill.drill_run import drill_plan
from under_siege.host.services import Services
from under_siege.load.request import WarmUp
from under_siege.measure import server_command
from under_siege.measure.plan import EnvironmentKey, make_plan
from under_siege.measure.prepare import ask_for_references
from under_siege.measure.server import running
from under_siege.measure.server_readiness import until_ready
from under_siege.record.record import CaseFailedError
from under_siege.suite.selection import suite_of


def test_a_missing_library_is_reported_with_the_command_that_installs_it(tmp_path: Path, monkeypatch) -> None:
    plan = plan_in(tmp_path, '[servers.one]\ncommand = "serve {port}"\nneeds = ["libev"]\n')
    monkeypatch.setattr(server_command, "find_library", {"ev": None}.__getitem__)
    with pytest.raises(CaseFailedError, match=r"libev is missing; install it with: .*libev"):
        start_in(plan, "one")
    monkeypatch.setattr(server_command, "find_library", {"ev": "libev.so.4"}.__getitem__)
    assert start_in(plan, "one").words == ["serve", "8123"]


def test_a_failed_build_is_reported_with_the_missing_compiler_or_headers(tmp_path: Path, monkeypatch) -> None:
    needs = 'requirements = ["built==1"]\nneeds = ["libev", "COMPILER"]\n'
    text = f'[servers.one]\ncommand = "serve {{port}}"\n{needs}'
    monkeypatch.setattr(server_command, "find_library", {"ev": "libev.so.4"}.__getitem__)
    for compiler, reason in (
        ("no-such-cc", "no-such-cc is not installed"),
        ("sh", "no ev.h; libev is installed, but its headers"),
    ):
        plan = plan_in(tmp_path, text.replace("COMPILER", compiler))
        made = {EnvironmentKey(("built==1",), (), next(iter(plan.pythons)), tmp_path): "no ev.h"}
        with pytest.raises(CaseFailedError, match=reason):
            start_in(replace(plan, environments=made), "one")


@pytest.mark.parametrize("is_kept", [False, True])
def test_settings_that_change_a_server_are_set_aside_unless_they_are_kept(
    is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"WEB_CONCURRENCY": "3", "GUNICORN_CMD_ARGS": "--threads 9", "UVICORN_WORKERS": "3"}
    for name, value in {**settings, "SHOP_URL": "x"}.items():
        monkeypatch.setenv(name, value)
    plan = plan_in(tmp_path, f"keep_environment = {str(is_kept).lower()}\n{SERVERS}")
    environment = start_in(plan, "plain").environment
    assert environment["SHOP_URL"] == "x"
    found = {name: environment[name] for name in settings if name in environment}
    assert found == (settings if is_kept else server_command.NEUTRAL)


def test_the_warm_up_of_a_server_overrides_that_of_the_suite(tmp_path: Path) -> None:
    own, none = "warm_up = 6_000\n", "warm_up = 0\n"
    text = SERVERS.replace('built"\n', f'built"\n{own}').replace('broken"\n', f'broken"\n{none}')
    plan = plan_in(tmp_path, f'[load]\ntool = "ab"\nwarm_up = "2s"\nrequests = 10\n{text}')
    found = {case.server: plan.warm_up_of(case) for case in plan.cases}
    assert found["broken"] is None
    assert (found["built"].requests, found["built"].time_s) == (6000, None)
    assert (found["plain"].requests, found["plain"].time_s) == (None, 2.0)
    assert plan.load.warm_up == WarmUp(time_s=2.0)


SUITE_OF_FILES = (
    '[load]\ntool = "wrk"\npath = "/{file}"\nfiles = "tree"\n[ping]\npath = "/ping"\n'
    '[servers.one]\ncommand = "serve {port} {files}"\n'
)


def test_a_suite_with_files_needs_no_reference_request(tmp_path: Path) -> None:
    (tree := tmp_path / "tree").mkdir()
    (tree / "1.txt").write_text("one")
    plan = plan_in(tmp_path, SUITE_OF_FILES)
    (expected,) = asyncio.run(ask_for_references(plan, None, SilentWatcher())).values()
    assert expected.files.sizes == {"1.txt": 3}
    assert start_in(plan, "one").words == ["serve", "8123", str(tree)]
    with pytest.raises(BadInputError, match=r"load\.files: drill sends its own requests and supports only one path"):
        drill_plan(plan.suite, (), {"python": [sys.executable]}, rounds=1, seed=None)
    (tree / "1.txt").unlink()
    with pytest.raises(BadInputError, match=r"load\.files: no files in"):
        asyncio.run(ask_for_references(plan, None, SilentWatcher()))


class FailingDns:
    """A client session in which every DNS lookup fails."""

    def request(self, *_: object, **__: object) -> None:
        key = aiohttp.client_reqrep.ConnectionKey("gone.invalid", 80, False, True, None, None, None)
        raise aiohttp.ClientConnectorDNSError(key, OSError(-2, "Name or service not known"))


def test_a_url_with_an_unknown_host_fails_immediately() -> None:
    plan = make_plan(suite_of(["http://gone.invalid/report"]), {"python": [sys.executable]}, time_s=None, rounds=1)

    async def go() -> None:
        async with running(plan, plan.cases[0], None, Services()) as server:
            await until_ready(server, FailingDns())

    with pytest.raises(CaseFailedError, match=r"unknown host 'gone\.invalid'"):
        asyncio.run(go())


def test_kept_settings_of_gunicorn_that_the_command_replaces_are_named(tmp_path: Path) -> None:
    (tmp_path / "gunicorn.conf.py").write_text("workers = 5\ntimeout = 4\nlimit_request_line = 10\n")
    command = ["python", "-m", "gunicorn", "app:app", "-w", "2", "-b", "127.0.0.1:8000"]
    assert server_command.overridden(tmp_path, command) == ["workers = 5"]
    assert server_command.overridden(tmp_path, [*command, "--timeout", "0"]) == ["workers = 5", "timeout = 4"]
    assert server_command.overridden(tmp_path, ["python", "-m", "uvicorn", "app:app"]) == []
    (tmp_path / "gunicorn.conf.py").unlink()
    assert server_command.overridden(tmp_path, command) == []
