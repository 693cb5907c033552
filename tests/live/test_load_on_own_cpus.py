"""A real run in which the load tool and the bench have CPUs of their own."""

import os
import threading
from pathlib import Path

import psutil
import pytest
from command import invoke

from under_siege.host import cpu_division
from under_siege.host.cpu_division import divided
from under_siege.record.result import load

TASK = "import os\n\ndef cpus() -> list[int]:\n    sum(range(100_000))\n    return sorted(os.sched_getaffinity(0))\n"
WORDS = ("run", "3", "4", "--task", "my_jobs:cpus", "--rounds", "1", "--time", "2s", "--users", "4", "--out", "r.json")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_load_and_servers_run_on_different_cpus(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(cpu_division, "CPUS_PER_LOAD_CPU", 2)  # otherwise, only four CPUs or more are divided
    (tmp_path / "my_jobs.py").write_text(TASK)
    own, is_over, seen = os.sched_getaffinity(0), threading.Event(), dict[str, set[frozenset[int]]]()
    watching = threading.Thread(target=watch, args=[seen, is_over])
    watching.start()
    try:
        ran = invoke(*WORDS, folder=tmp_path)
    finally:
        is_over.set()
        watching.join()
    result, division = load(tmp_path / "r.json"), divided(own, cpu_division._core_of)
    assert not [record.failure for record in result.records if record.failure], ran.stdout
    assert {len(record.requests.only("load").outcome) > 0 for record in result.records} == {True}
    # Responses are correct only if the servers run on the same CPUs as the trial of the task.
    assert {record.answer_bytes for record in result.records} == {len(str(sorted(division.servers)))}
    assert seen["siege"] == {division.load}
    assert division.load in seen["bench"]
    assert os.sched_getaffinity(0) == own
    assert (result.environment.usable_cpus, result.environment.load_cpus) == (len(own) - len(own) // 2, len(own) // 2)
    assert {record.is_ceiling for record in result.records} == {True, False}
    assert {record.load_cpus for record in result.records} == {len(division.load)}
    assert f"for servers, {len(own) // 2} for the load" in ran.stdout
    assert set(result.records[0].cpu_times.busy_s) == division.servers


def watch(seen: dict[str, set[frozenset[int]]], is_over: threading.Event) -> None:
    """Collect the CPUs on which siege and this process may run."""
    while not is_over.wait(0.05):
        seen.setdefault("bench", set()).add(frozenset(os.sched_getaffinity(os.getpid())))
        for process in psutil.Process().children(recursive=True):
            try:
                if process.name() == "siege":
                    seen.setdefault("siege", set()).add(frozenset(process.cpu_affinity()))
            except psutil.Error:
                continue
