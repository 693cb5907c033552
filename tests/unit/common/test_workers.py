"""The number of usable CPUs, limited by affinity and cgroups."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from common import workers


def test_cpu_affinity_limits_the_usable_cpus(monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert (workers.usable_cpus(), workers.default_threads()) == (1, 5)


@pytest.mark.parametrize(
    ("own", "files", "quotas"),
    [
        ("0::/pod/app\n", {"pod/app/cpu.max": "150000 100000", "pod/cpu.max": "max 100000"}, [1.5]),
        ("0::/pod/app\n", {"pod/app/cpu.max": "max 100000", "pod/cpu.max": "50000 100000"}, [0.5]),
        ("0::/\n", {"cpu.max": "300000 100000"}, [3.0]),
        ("0::/\n", {}, []),
    ],
)
def test_cgroup_cpu_quotas_of_all_levels_are_read(own, files, quotas, tmp_path) -> None:
    (tmp_path / "cgroup").write_text(own)
    for name, text in files.items():
        (tmp_path / "fs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fs" / name).write_text(text + "\n")
    assert workers._cgroup_quotas(tmp_path / "cgroup", tmp_path / "fs") == quotas


def test_a_cpu_quota_below_one_cpu_counts_as_one_cpu(monkeypatch) -> None:
    monkeypatch.setattr(workers, "_cgroup_quotas", lambda: [0.2])
    assert workers.usable_cpus() == 1


def test_the_default_number_of_threads_equals_that_of_thread_pool_executor(monkeypatch) -> None:
    monkeypatch.setattr(workers, "usable_cpus", os.cpu_count)  # the executor ignores limits
    with ThreadPoolExecutor() as pool:
        assert workers.default_threads() == pool._max_workers
