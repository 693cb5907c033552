"""`--workers auto` on a real application under a memory limit."""

from pathlib import Path

import pytest
from command import invoke

from under_siege.record.record import OUT_OF_MEMORY
from under_siege.record.result import load

WAITS = """
import time
from flask import Flask
app = Flask(__name__)
CACHE = b"x" * 60_000_000
@app.get("/")
def wait():
    time.sleep(0.1)
    return "done"
"""
SUITE = """
[load]
users = [4]
time = "2s"
[axes]
workers = "auto"
[servers.sync]
command = "gunicorn -w {workers} -b {host}:{port} --log-level error waits:app"
"""


def test_the_search_goes_up_as_long_as_the_processes_of_a_service_that_waits_fit_into_the_memory(
    tmp_path: Path,
) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "suite.toml").write_text(SUITE)
    out = tmp_path / "r.json"
    ran = invoke("run", str(tmp_path), "--memory", "300MB", "--quiet", "--out", str(out))
    if "cgroup" in ran.stderr:
        pytest.skip(ran.stderr)
    records = load(out).records
    failed = {int(record.values["workers"]) for record in records if record.failure}
    assert {record.failure.code for record in records if record.failure} == {OUT_OF_MEMORY}
    assert max(int(record.values["workers"]) for record in records if not record.failure) == min(failed) / 2
    assert failed == {max(int(record.values["workers"]) for record in records)}, ran.stdout


def test_a_search_is_refused_where_the_number_of_rounds_is_fixed() -> None:
    for command in (["run", "4", "--rounds", "2"], ["capacity", "4"], ["drill", "4"], ["trace", "4"]):
        ran = invoke(*command, "--workers", "auto")
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
        assert "auto" in ran.stderr
