"""A load tool that is slower than the server is named as the limit."""

import shutil
import sys
from pathlib import Path

import pytest
from bench_runs import run_once
from conftest import TESTS, thorough
from load_tool_checks import needed, skip_version_lookup
from scripted_server import write_suite

from under_siege.judge.ranking import summarize

NGINX = f'[servers.nginx]\ncommand = "{sys.executable} {TESTS / "servers" / "nginx_static.py"} {{port}}"\n'


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
@pytest.mark.parametrize("tool", thorough(["ab", "wrk"], quick=("wrk",)))
def test_the_load_tool_is_reported_as_the_bottleneck_for_nginx_but_not_for_a_slow_server(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed(tool)
    skip_version_lookup(monkeypatch)
    suite = write_suite(tmp_path, {"slow": "/slow/0.05"}, f'tool = "{tool}"\nusers = 10', NGINX)
    result, _ = run_once(tmp_path, str(suite), "--time", "1s")
    codes = {case.server: [reason.code for reason in case.reasons] for case in summarize(result).cases}
    assert "generator" not in codes["slow"]
    if "generator" not in codes["nginx"] and {"busy_machine", "wide_interval"} & {*codes["nginx"]}:
        pytest.skip("other programs used so much CPU time that nginx was the limit")
    assert "generator" in codes["nginx"]
