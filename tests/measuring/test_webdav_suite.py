"""suites/webdav: its checks detect timers, and servers that do not store files on disk."""

import re
import shutil
from pathlib import Path

import pytest
from bench_runs import run_once
from conftest import ROOT
from load_tool_checks import skip_version_lookup

from under_siege.judge.ranking import summarize
from under_siege.judge.summary import Summary
from under_siege.load import DRIVERS
from under_siege.load.stressor import Stressor
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


@pytest.mark.slow
def test_a_timer_and_servers_that_do_not_store_files_are_detected_with_locust(tmp_path: Path) -> None:
    result, cases = small(tmp_path, "suite.toml", '["cheroot", "stores_nothing", "only_in_memory"]', 1)
    timers = [reason for reason in cases["cheroot"].reasons if reason.code == "timer"]
    assert [cases["cheroot"].verdict, len(timers)] == ["suspect", 1], cases["cheroot"].reasons
    assert "select of cheroot 8.1" in timers[0].message
    assert cases["cheroot"].availability_pct == 100  # GET and the file on disk match the PUT
    if shutil.which("nginx") or Path("/usr/sbin/nginx").exists():
        ceiling = next(record for record in result.records if record.is_ceiling)
        assert (ceiling.failure, sum(ceiling.bursts.wrong_status)) == (None, 0)
    for name in ("stores_nothing", "only_in_memory"):
        assert cases[name].verdict == "failed"
        assert "wrong contents" in cases[name].reasons[0].message


@pytest.mark.slow
def test_a_server_that_does_not_store_files_is_detected_with_stressor(tmp_path: Path) -> None:
    result, cases = small(tmp_path, "stressor.toml", '["cheroot", "stores_nothing"]', 1)
    assert cases["stores_nothing"].verdict == "failed"
    assert "wrong contents" in cases["stores_nothing"].reasons[0].message
    cheroot = next(record for record in result.records if record.server == "cheroot")
    assert cheroot.failure is None
    assert sum(cheroot.bursts.right) > 0
    assert sum(cheroot.bursts.wrong_status) == sum(cheroot.bursts.unanswered) == 0


def test_only_locust_and_stressor_support_scripts() -> None:
    from under_siege.load.tool import LoadSpec

    able = {name for name, driver in DRIVERS.items() if not driver.refusal(LoadSpec(4, 1.0, "", script="x"))}
    assert able == {"locust", "stressor"}


LOST = "{'/main/1/PutRequest(/x)': {'errors': 3, 'last_error': \"ActivityError('gone'\"}}"
WRONG = "{'/main/2/GetRequest(/x)': {'errors': 3, 'last_error': \"ActivityAssertionError(['no match'\"}}"
SUMMARY = """Run time 1.000 sec, net: 3.0 sec.
  - /main/1/PutRequest(/x)
    n: 1,200, min: 0.001 sec, avg: 0.002 sec, max: 0.032 sec{}
  - /main/2/GetRequest(/x)
    n: 1,200, min: 0.001 sec, avg: 0.002 sec, max: 0.031 sec, 3 errors
"""


@pytest.mark.parametrize(
    ("stdout", "lost", "expected"),
    [(WRONG, "", (2397, 3, 0, 3)), (LOST + WRONG, ", 3 errors", (2394, 3, 3, 0))],
    ids=["wrong_get_after_put", "unverifiable_get_after_lost_put"],
)
def test_totals_include_all_activities_of_a_stressor_script(stdout: str, lost: str, expected: tuple[int, ...]) -> None:
    from under_siege.load.tool import LoadSpec, ToolOutput

    totals = Stressor().totals(ToolOutput(1, stdout, SUMMARY.format(lost)), LoadSpec(3, 1.0, ""))
    assert (totals.right, totals.wrong_status, totals.unanswered, totals.wrong_contents) == expected
    assert totals.max_s == 0.032
