"""suites/webdav: its checks detect servers that do not store files on disk."""

import re
import shutil
from pathlib import Path

import pytest
from bench_runs import run_once
from conftest import ROOT
from load_tool_checks import skip_version_lookup

from under_siege.judge.ranking import summarize
from under_siege.judge.summary import Summary
from under_siege.record.result import Result

pytest.importorskip("wsgidav")
DISHONEST = """
[servers.only_in_memory]
command = "{python} only_in_memory.py {host} {port}"
"""


def small(folder: Path, file: str, servers: str, seconds: int) -> tuple[Result, dict[str, Summary]]:
    """Run the suite for a short time with these servers, few users and the packages of the tests."""
    shutil.copytree(ROOT / "suites" / "webdav", folder / "webdav")
    path = folder / "webdav" / file
    text = re.sub(r"(?m)^requirements = .*\n", "", path.read_text())
    text = re.sub(r"(?m)^cheroot = .*", "", text)
    text = text.replace("[quick.axes]", "").replace("[axes]", "")
    text = re.sub(r"(?m)^users = .*", "users = 3", text)
    text = re.sub(r"(?m)^time = .*", f'time = "{seconds}s"', text)
    path.write_text(re.sub(r"(?m)^servers = .*", f"servers = {servers}", text) + DISHONEST)
    store = (folder / "webdav" / "stores_nothing.py").read_text()
    in_memory = store.replace('self.rfile.read(int(self.headers.get("Content-Length", 0)))', "self.keep()")
    in_memory = in_memory.replace("else STORED)", "else KEPT.get(self.path, b''))")
    keep = """    def keep(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        KEPT[self.path] = self.rfile.read(length)

    def answer("""
    in_memory = in_memory.replace("    def answer(", keep).replace("STORED = ", "KEPT = {}\nSTORED = ")
    assert in_memory.count("KEPT") == 3
    (folder / "webdav" / "only_in_memory.py").write_text(in_memory)
    with pytest.MonkeyPatch.context() as patched:
        skip_version_lookup(patched)
        result, _ = run_once(folder, str(path.relative_to(folder)), "--quick")
    return result, {case.server: case for case in summarize(result).cases}


def test_servers_that_do_not_store_files_are_detected_with_locust(tmp_path: Path) -> None:
    result, cases = small(tmp_path, "suite.toml", '["cheroot", "stores_nothing", "only_in_memory"]', 1)
    assert cases["cheroot"].verdict != "failed", cases["cheroot"].reasons
    assert cases["cheroot"].availability_pct == 100  # GET and the file on disk match the PUT
    if shutil.which("nginx") or Path("/usr/sbin/nginx").exists():
        ceiling = next(record for record in result.records if record.is_ceiling)
        assert (ceiling.failure, sum(ceiling.bursts.wrong_status)) == (None, 0)
    for name in ("stores_nothing", "only_in_memory"):
        assert cases[name].verdict == "failed"
        assert "wrong contents" in cases[name].reasons[0].message


def test_a_server_that_does_not_store_files_is_detected_with_stressor(tmp_path: Path) -> None:
    result, cases = small(tmp_path, "stressor.toml", '["cheroot", "stores_nothing"]', 1)
    assert cases["stores_nothing"].verdict == "failed"
    assert "wrong contents" in cases["stores_nothing"].reasons[0].message
    cheroot = next(record for record in result.records if record.server == "cheroot")
    assert cheroot.failure is None
    assert sum(cheroot.bursts.right) > 0
    assert sum(cheroot.bursts.wrong_status) == sum(cheroot.bursts.unanswered) == 0
