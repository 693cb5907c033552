"""The profile of a real server names the line that blocks it."""

import functools
import re
from pathlib import Path

import pytest
from bench_runs import without_a_ceiling
from command import CommandResult, invoke
from conftest import TESTS, thorough

from under_siege.profile import profile_run, sampler
from under_siege.record.result import load

BLOCKING = TESTS / "suites/blocking"
SUITES = {"starving": "starving.toml", "awaiting": "starving.toml", "serializing": "serializing.toml"}
SUITES["waiting_in_threads"] = "waiting.toml"
ADVICE = re.compile(r"Move|Use|pool|thread:|process|Connections")
FAULTS = {  # server: the finding, and the line that is named first
    "sleeping": ("The event loop was blocked", r"sleeping.py:11  fetch_exchange_rate  blocking I/O \(time.sleep\)"),
    "requesting": ("The event loop was blocked", r"requesting.py:\d+  Report.get  blocking I/O \(requests\)"),
    "computing": ("The event loop was blocked", r"computing.py:\d+  count_primes  CPU-bound, holds the GIL"),
    "computing_in_threads": (
        r"\d+ threads, in turn, held the GIL",
        r"computing_in_threads.py:\d+  report  CPU-bound, (waits for|holds) the GIL",
    ),
    "locking": ("8 threads waited for a lock", r"locking.py:19  report  waits for a lock"),
    "starving": (
        r"All (3\d|40) threads of the pool were busy",
        r"starving.py:11  query_database  blocking I/O \(time.sleep\)",
    ),
    "background": ("The event loop was blocked", r"background.py:11  send_mail  blocking I/O \(time.sleep\)"),
    "serializing": ("The event loop was blocked", r"serializing.py:12  report  CPU-bound, .*\(serialization\)"),
    "logging_slowly": ("The event loop was blocked", r"logging_slowly.py:27  report  blocking I/O \(logging\)"),
    "hashing": ("The event loop was blocked", r"hashing.py:11  hash_password  CPU-bound, without the GIL"),
    "streaming": (
        "Thread hops for each chunk used",
        r"starlette/responses.py:\d+  StreamingResponse.stream_response  thread hops, iterate_in_threadpool",
    ),
    "rendering": ("The event loop was blocked", r"rendering.py:15  report  CPU-bound, holds the GIL \(Jinja\)"),
    "awaiting": ("Awaited calls used", r"awaiting.py:22  report  awaited \(aiohttp\)"),
    "waiting_in_threads": (
        r"Nothing blocks the event loop|\d+ threads, in turn, held the GIL",
        r"waiting_in_threads.py:21  report  blocking I/O \(requests\)",
    ),
}


def without_doubt(text: str) -> str:
    """Remove the remark about a busy machine from a diagnosis, because other tests keep the machine busy."""
    return re.sub(r"Uncertain, because .*? of the CPUs: (.)", lambda match: match[1].upper(), text)


def diagnosis_of(server: str) -> list[str]:
    """Profile a server; return the printed lines without its name."""
    ran = invoke("profile", f"{BLOCKING / SUITES.get(server, 'suite.toml')}:{server}", "--time", "8s", "--quiet")
    assert ran.returncode == 0, ran.stderr
    _, *lines = without_doubt(ran.stdout).strip().splitlines()
    assert len(lines) <= 6
    return lines


@pytest.mark.parametrize("server", thorough(FAULTS, quick=("sleeping", "computing_in_threads", "streaming")))
def test_the_profile_names_the_blocking_line_first(server: str) -> None:
    finding, place = FAULTS[server]
    headline, *lines = diagnosis_of(server)
    first = next(line for line in lines if re.search(r"\d %  ", line))  # a long headline is wrapped
    assert re.match(finding, headline.strip())
    assert re.search(rf"\d %  {place}", first)
    if server in ("rendering", "awaiting", "waiting_in_threads"):
        assert not ADVICE.search(" ".join(lines)), "this advice may not help"
    if server == "streaming":  # the framework is busy because of a line of the application
        assert any("Caused by async def report (streaming.py:18): return Stream" in line for line in lines)


def test_the_profile_of_a_correct_application_reports_no_blocked_event_loop_and_gives_no_advice() -> None:
    headline, loop = diagnosis_of("fine")
    assert headline.strip().startswith("Nothing blocks the event loop")
    assert int(re.search(r"your code (\d+) %", loop)[1]) < 20
    assert not ADVICE.search(loop)


def profiled(out: Path, *words: str) -> CommandResult:
    return invoke("profile", *words, "--time", "6s", "--users", "8", "--out", str(out), "--quiet")


def test_the_profile_reports_a_held_gil_for_threads_but_not_for_processes(tmp_path: Path) -> None:
    ran = profiled(tmp_path / "p.json", "3", "4")
    assert ran.returncode == 0, ran.stderr
    threads, processes = without_doubt(ran.stdout).split("\n\n")
    assert "held the GIL" in threads
    assert "Nothing blocks the event loop" in processes
    assert [profile.server for profile in load(tmp_path / "p.json").profiles] == [
        "3_async_threadexecutor",
        "4_async_processexecutor",
    ]
    report = invoke("report", str(tmp_path / "p.json"), "--format", "profile")
    assert report.stdout.strip() == ran.stdout.strip()
    page = invoke("report", str(tmp_path / "p.json"), "--format", "html").stdout
    assert "What blocks each server?" in page
    assert page.count("<svg") == 4  # a wide and a narrow chart for each server


def test_run_with_profile_measures_and_profiles_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, words = tmp_path / "r.json", ("--rounds", "1", "--time", "1s", "--users", "4", "--quiet")
    monkeypatch.setattr(profile_run, "Profiler", functools.partial(profile_run.Profiler, time_s=6.0))
    with without_a_ceiling():
        ran = invoke("run", "2", "--profile", *words, "--out", str(out))
    result = load(out)
    assert [record.server for record in result.records] == ["2_async"]
    assert [profile.failure for profile in result.profiles] == [""]
    assert "The event loop was blocked" in without_doubt(ran.stdout)


def test_a_server_that_does_not_run_cpython_is_reported_as_not_profiled(tmp_path: Path) -> None:
    suite = tmp_path / "suite.toml"
    command = "node -e \\\"require('http').createServer((q, a) => a.end('ok')).listen({port}, '127.0.0.1')\\\""
    suite.write_text(f'title = "Node"\n[load]\nusers = 2\n[servers.node]\ncommand = "{command}"\nneeds = ["node"]\n')
    ran = invoke("profile", str(suite), "--time", "1s", "--quiet")
    assert ran.returncode == 1
    assert "not profiled: none of the server's processes runs CPython" in " ".join(ran.stdout.split())


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'Error: Permission denied (os error 13)' >&2; exit 1", "kernel.yama.ptrace_scope"),
        ("echo 'Error: no\x1b[31m such process' >&2; exit 1", "py-spy failed: no\ufffd[31m such process"),
    ],
    ids=["permission", "control characters"],
)
def test_the_error_of_a_failed_profiler_is_shown(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "py-spy"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sampler, "py_spy", lambda: str(fake))
    ran = invoke("profile", "2", "--time", "1s", "--users", "2", "--quiet")
    assert ran.returncode == 1
    assert message in " ".join(ran.stdout.split())
