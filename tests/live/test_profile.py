"""Profiles of real servers name the code that blocks them. Recorded profiles are diagnosed in tests/unit/profile."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from command import invoke
from conftest import TESTS

from under_siege.profile import sampler
from under_siege.profile.diagnosis import Diagnosis
from under_siege.record.record import CaseFailedError, Profile
from under_siege.record.result import load

SUITE = TESTS / "suites" / "blocking" / "suite.toml"
TIME_S = 6.0


def test_the_code_that_blocks_an_event_loop_is_named_first(tmp_path: Path) -> None:
    words = ("--time", f"{TIME_S:g}s", "--quiet", "--out", "p.json")
    ran = invoke("profile", f"{SUITE}:sleeping", *words, folder=tmp_path)
    (profile,) = load(tmp_path / "p.json").profiles
    assert Diagnosis(profile).loop_hotspots[0].frame.place == "sleeping.py:11"
    assert "sleeping.py:11" in ran.stdout


def test_the_code_that_holds_the_gil_in_threads_is_named_first(tmp_path: Path) -> None:
    words = ("--time", f"{TIME_S:g}s", "--quiet", "--out", "p.json")
    ran = invoke("profile", f"{SUITE}:computing_in_threads", *words, folder=tmp_path)
    (profile,) = load(tmp_path / "p.json").profiles
    frame = Diagnosis(profile).thread_hotspots[0].frame
    assert (ran.returncode, frame.file, frame.function) == (0, "computing_in_threads.py", "report")
    assert sum(profile.stacks.gil) > 0
    assert profile.answers > 0


FAILURES = {
    "no_permission": "echo 'Error: Permission denied (os error 13)' >&2; exit 1",
    "profiler_failed": "echo 'Error: no\x1b[31m such process' >&2; exit 1",
}


@pytest.mark.parametrize("code", FAILURES)
def test_the_error_of_a_failed_profiler_is_reported(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "py-spy"
    fake.write_text(f"#!/bin/sh\n{FAILURES[code]}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sampler, "py_spy", lambda: str(fake))
    assert failure_of(os.getpid()).code == code
    assert "\x1b" not in str(failure_of(os.getpid()))


def test_a_server_that_does_not_run_cpython_is_not_profiled() -> None:
    with subprocess.Popen(["sleep", "60"]) as server:
        try:
            assert failure_of(server.pid).code == "not_python"
        finally:
            server.kill()


def failure_of(pid: int) -> CaseFailedError:
    with pytest.raises(CaseFailedError) as caught:
        asyncio.run(sampler.sample(pid, 1.0, Path(), Profile(server="shop", title="", values={})))
    return caught.value
