"""Suites that repeat published benchmarks detect the benchmarks' faults, even with few servers and little load."""

import re
import shutil
from pathlib import Path

import pytest
from bench_runs import run_once
from conftest import ROOT
from load_tool_checks import needed

from under_siege.judge.ranking import summarize
from under_siege.judge.summary import Summary
from under_siege.record.record import Record
from under_siege.record.result import Result
from under_siege.report import formatted

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


def records_and_cases(result: Result) -> tuple[dict[str, Record], dict[str, Summary]]:
    comparison = summarize(result)
    cases = {case.server: case for case in (*comparison.ceilings, *comparison.cases)}
    return {record.server: record for record in result.records}, cases


def codes(case: Summary) -> set[str]:
    return {reason.code for reason in case.reasons}


def messages(case: Summary) -> str:
    return " ".join(reason.message for reason in case.reasons)


def test_the_long_task_suite_detects_work_that_is_not_awaited(tmp_path: Path) -> None:
    suite = ROOT / "suites" / "long-task"
    result, _ = run_once(tmp_path, f"{suite}:not_awaited", "--quick", "--time", "1s")
    _, cases = records_and_cases(result)
    assert cases["bare"].verdict != "failed", cases["bare"].reasons
    assert codes(cases["not_awaited"]) == {"wrong_answer"}
    assert "200 with 0 bytes" in messages(cases["not_awaited"])


def test_the_wsgi_suite_detects_wrong_bodies_and_closed_connections(tmp_path: Path) -> None:
    needed("ab")
    servers = ["nginx", "waitress", "gunicorn-sync"]
    servers += ["node-own"] * (bool(shutil.which("node")) and (ROOT / "suites/wsgi/node_modules/express").is_dir())
    changes = {r"requests = 10_000": "requests = 300", r"\[false, true\]": "true"}
    (tmp_path / "hollow.py").write_text(HOLLOW.format(name="app", honest="honest", size=973))
    result, _ = run_once(tmp_path, small("wsgi", tmp_path, servers, changes, DISHONEST))
    records, cases = records_and_cases(result)
    for name in ("waitress", "gunicorn-sync"):
        assert cases[name].verdict != "failed", cases[name].reasons
        assert cases[name].transactions == 300
        assert cases[name].response_s.p50 <= cases[name].response_s.p99
        assert cases[name].cpu_s_per_transaction > 0
    assert records["waitress"].tool_command[:2] == ["ab", "-q"]
    assert codes(cases["dishonest"]) == {"wrong_answer"}
    assert "sent as ab sends it, returned 200 with 973 bytes 'xxx" in messages(cases["dishonest"])
    page = formatted(result, "markdown")
    assert re.search(r"gunicorn-sync.*the server closed each one", page)
    assert not re.search(r"waitress.*the server closed each one", page)
    if "node-own" in servers:
        assert codes(cases["node-own"]) == {"wrong_answer"}
        assert "200 with 929 bytes" in messages(cases["node-own"])
        assert "(equal as JSON, but not byte for byte)" in messages(cases["node-own"])
    check_ceiling(cases, "waitress")


def check_ceiling(cases: dict[str, Summary], server: str) -> None:
    """Check that nginx is the ceiling if it is installed."""
    if shutil.which("nginx", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin"):
        assert cases["nginx"].verdict != "failed", cases["nginx"].reasons
        assert cases[server].ceiling_per_s == pytest.approx(cases["nginx"].rate_per_s.mean)


def test_the_static_suite_detects_that_whitenoise_did_not_serve_the_files(tmp_path: Path) -> None:
    needed("wrk")
    changes = {r'"tree/125046"': '"tree/60"', r'"20s"': '"0.5s"'}
    (tmp_path / "hollow.py").write_text(HOLLOW.format(name="whitenoise", honest="honest()", size=2))
    servers = ["nginx", "whitenoise", "published", "compiled"]
    without_a_compiler = {r'needs = \["cc"\]\nprepare = .*\n': ""}
    result, _ = run_once(tmp_path, small("static", tmp_path, servers, changes | without_a_compiler, DISHONEST))
    records, cases = records_and_cases(result)
    assert cases["whitenoise"].verdict != "failed", cases["whitenoise"].reasons
    assert cases["whitenoise"].transactions > 0
    assert cases["whitenoise"].ready_s
    assert cases["whitenoise"].memory_bytes
    assert sum(records["whitenoise"].bursts.body_bytes) > 1000 * cases["whitenoise"].transactions
    assert not any(records["whitenoise"].bursts.odd_bytes)
    check_ceiling(cases, "whitenoise")
    assert len(list((tmp_path / "tree/60").rglob("*.jpg"))) == 60
    for name, actual in {"published": "flask", "compiled": "whitenoise, pure"}.items():
        assert codes(cases[name]) == {"wrong_answer"}
        assert f"returned X-Served-By: {actual} instead of X-Served-By: " in messages(cases[name])
    assert codes(cases["dishonest"]) == {"wrong_answer"}
    assert "sent as wrk sends it, returned 200 with 2 bytes 'xx'" in messages(cases["dishonest"])
    assert any(records["dishonest"].bursts.odd_bytes)


def test_the_ports_suite_detects_port_exhaustion(tmp_path: Path) -> None:
    needed("wrk")
    # The side that closes the connection first keeps its port occupied. With this pause, the client closes first.
    config = tmp_path / "client_closes_first.py"
    config.write_text("import time\n\ndef post_request(worker, request, environ, response):\n    time.sleep(0.01)\n")
    changes = {
        r'"tree/20000"': '"tree/60"',
        r'"10s"': '"3s"',
        "2_000": "100",
        "gunicorn --": f"gunicorn --config {config} --",
    }
    result, ran = run_once(tmp_path, small("static/ports.toml", tmp_path, ["whitenoise"], changes))
    if "own_network" in ran.stderr:
        pytest.skip(ran.stderr)
    records, cases = records_and_cases(result)
    assert "ports" in codes(cases["whitenoise"]), cases["whitenoise"].reasons
    assert "it has 100; " in messages(cases["whitenoise"])
    assert records["whitenoise"].port_range == 100
