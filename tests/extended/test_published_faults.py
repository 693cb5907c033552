"""Suites that repeat published benchmarks detect the benchmarks' faults, even with few servers and little load.

tests/unit/test_check_published.py checks the flags of their committed results.
"""

import re
import shutil
from pathlib import Path

import pytest
from bench_runs import run_once
from conftest import ROOT
from load_tool_checks import needed

from under_siege.judge.ranking import summarize
from under_siege.judge.summary import Summary

HOLLOW = """
import time
from app import {name} as honest

def app(environ, start_response):
    if "aiohttp" in environ.get("HTTP_USER_AGENT", ""):
        return {honest}(environ, start_response)
    time.sleep(0.02)  # a few responses are enough
    start_response("200 OK", [("Content-Length", "{size}")])
    return [b"x" * {size}]
"""
DISHONEST = '[servers.dishonest]\ncommand = "waitress-serve --host {host} --port {port} hollow:app"\n'


def small(suite: str, to: Path, servers: list[str], changes: dict[str, str], more: str = "") -> str:
    """Copy a suite with only these servers, which run with the Python of the tests; return the suite's file name."""
    source = ROOT / "suites" / suite
    folder, name = (source, "suite.toml") if source.is_dir() else (source.parent, source.name)
    for path in folder.iterdir():
        if path.is_file():
            shutil.copy(path, to)
        elif path.name == "node_modules":
            (to / path.name).symlink_to(path)
    top, *tables = re.split(r"(?m)^(?=\[servers\.)", (folder / name).read_text())
    top = re.sub(r"(?ms)^\[quick.*?(?=^\[(?!quick)|\Z)", "", top)
    text = top + "".join(one for one in tables if re.match(r"\[servers\.([\w-]+)\]", one)[1] in servers) + more
    text = re.sub(r"(?m)^(requirements = .*|prepare = \"npm.*)\n", "", text).replace('"node", "npm"', '"node"')
    for before, after in changes.items():
        text, count = re.subn(before, after, text)
        assert count, before
    (to / name).write_text(text)
    return name


def measured(folder: Path, *words: str) -> dict[str, Summary]:
    """Run a suite; return its cases by server."""
    result, ran = run_once(folder, *words)
    if "own_network" in ran.stderr:
        pytest.skip(ran.stderr)
    comparison = summarize(result)
    return {case.server: case for case in (*comparison.ceilings, *comparison.cases)}


def reasons(case: Summary) -> dict[str, str]:
    return {reason.code: reason.message for reason in case.reasons}


def test_the_long_task_suite_detects_work_that_is_not_awaited(tmp_path: Path) -> None:
    cases = measured(tmp_path, f"{ROOT / 'suites' / 'long-task'}:not_awaited", "--quick", "--time", "1s")
    assert cases["bare"].verdict != "failed", cases["bare"].reasons
    assert "200 with 0 bytes" in reasons(cases["not_awaited"])["wrong_answer"]


def test_the_wsgi_suite_detects_wrong_bodies(tmp_path: Path) -> None:
    needed("ab")
    servers = ["nginx", "waitress", "gunicorn-sync"]
    servers += ["node-own"] * (bool(shutil.which("node")) and (ROOT / "suites/wsgi/node_modules/express").is_dir())
    changes = {r"requests = 10_000": "requests = 300", r"\[false, true\]": "true"}
    (tmp_path / "hollow.py").write_text(HOLLOW.format(name="app", honest="honest", size=973))
    cases = measured(tmp_path, small("wsgi", tmp_path, servers, changes, DISHONEST))
    assert [cases[name].transactions for name in ("waitress", "gunicorn-sync")] == [300, 300]
    assert "973 bytes 'xxx" in reasons(cases["dishonest"])["wrong_answer"]
    if "node-own" in servers:
        assert "equal as JSON" in reasons(cases["node-own"])["wrong_answer"]


def test_the_static_suite_detects_that_whitenoise_did_not_serve_the_files(tmp_path: Path) -> None:
    needed("wrk")
    changes = {r'"tree/125046"': '"tree/60"', r'"20s"': '"0.5s"', r'needs = \["cc"\]\nprepare = .*\n': ""}
    (tmp_path / "hollow.py").write_text(HOLLOW.format(name="whitenoise", honest="honest()", size=2))
    servers = ["nginx", "whitenoise", "published", "compiled"]
    cases = measured(tmp_path, small("static", tmp_path, servers, changes, DISHONEST))
    assert cases["whitenoise"].verdict != "failed", cases["whitenoise"].reasons
    assert len(list((tmp_path / "tree/60").rglob("*.jpg"))) == 60
    for name, actual in {"published": "flask", "compiled": "whitenoise, pure"}.items():
        assert f"X-Served-By: {actual} instead of X-Served-By: " in reasons(cases[name])["wrong_answer"]
    assert "2 bytes 'xx'" in reasons(cases["dishonest"])["wrong_answer"]


def test_the_ports_suite_detects_port_exhaustion(tmp_path: Path) -> None:
    needed("wrk")
    # The side that closes the connection first keeps its port occupied. With this pause, the client closes first.
    config = tmp_path / "client_closes_first.py"
    config.write_text("import time\n\ndef post_request(worker, request, environ, response):\n    time.sleep(0.01)\n")
    changes = {r'"tree/20000"': '"tree/60"', r'"10s"': '"3s"', "2_000": "100"}
    changes["gunicorn --"] = f"gunicorn --config {config} --"
    cases = measured(tmp_path, small("static/ports.toml", tmp_path, ["whitenoise"], changes))
    assert "it has 100; " in reasons(cases["whitenoise"])["ports"]
