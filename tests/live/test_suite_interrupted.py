"""A suite interrupted under load leaves no PostgreSQL, Redis, nginx, Node or ab processes and no temporary files."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from conftest import bench_command, gone, wait_until
from leftover_processes import commands
from load_tool_checks import needed

from under_siege.host.managed_process import offspring

NGINX = """
daemon off; pid {folder}/pid; error_log stderr error; worker_processes 1;
events {}
http {
  access_log off;
  client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
  uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  server { listen {host}:{port}; location / { return 200 "right"; } }
}
"""
NODE = "require('http').createServer((_, answer) => answer.end('right')).listen(+process.argv[3], process.argv[2])"
SUITE = """
[load]
tool = "ab"
path = "/"
users = 2
time = "60s"
own_network = true
[ping]
path = "/"
[servers.served]
command = "SERVES"
needs = ["postgresql", "redis"]
environment = { DATABASE = "{postgresql}", CACHE = "{redis}", IN = "{folder}" }
"""


@pytest.mark.parametrize(
    ("by", "server", "inside"),
    [
        (signal.SIGTERM, "node answers.js {host} {port}", "answers.js"),
        (signal.SIGKILL, "nginx -p {folder} -c nginx.conf", "nginx: worker"),
    ],
    ids=["SIGTERM", "SIGKILL"],
)
def test_an_interrupted_suite_leaves_no_processes_and_no_files(
    by: signal.Signals, server: str, inside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed("ab")
    path = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"
    here = {name: bool(shutil.which(name, path=path)) for name in (server.split()[0], "redis-server", "postgres")}
    here["postgres"] |= any(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if missing := [name for name in here if not here[name]]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    (tmp_path / "nginx.conf").write_text(NGINX)
    (tmp_path / "answers.js").write_text(NODE)
    (tmp_path / "s.toml").write_text(SUITE.replace("SERVES", server))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    command = bench_command("run", "s.toml", "--rounds", "1")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=tmp_path, **quiet) as bench:
        try:
            wait_until(lambda: bench.poll() is not None or re.search(r"(?m)^\S*ab -q", commands(offspring(bench.pid))))
            assert bench.poll() is None
            family = offspring(bench.pid)
            seen = commands(family)
            data = [
                Path(next(one for one in family if name in one.name()).cwd()) for name in ("postgres", "redis-server")
            ]
            assert inside in seen
            assert all(folder.is_dir() for folder in data)
            assert [*temporary.iterdir()]
            bench.send_signal(by)
            assert bench.wait(60) == {signal.SIGTERM: 143, signal.SIGKILL: -9}[by]
            wait_until(
                lambda: all(map(gone, family)) and not any(map(Path.exists, data)) and not [*temporary.iterdir()]
            )
        finally:
            bench.kill()
    assert not [one for one in psutil.process_iter() if _is_in(one, temporary)]


def _is_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.environ().get("TMPDIR", "").startswith(str(folder))
    except (psutil.Error, OSError):
        return False  # ended, a zombie, or owned by another user
