"""Cgroups of both versions, in simulated file systems, and the values of the axes `cpus` and `memory`."""

from pathlib import Path

import pytest

from common.errors import BadInputError
from under_siege.host import limits
from under_siege.host.limits import Limits, limit_values, own_controllers, size_bytes

V1 = "4:memory:/pod\n2:cpu,cpuacct:/pod\n0::/\n"


def tree(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def controllers_of(tmp_path: Path, own: str, files: dict[str, str]):
    (tmp_path / "own").write_text(own)
    return own_controllers(tmp_path / "own", tree(tmp_path / "fs", files))


@pytest.mark.parametrize(
    ("own", "files"),
    [
        (
            V1,
            {
                "cpu/pod/cpu.cfs_quota_us": "50000\n",
                "cpu/pod/cpu.cfs_period_us": "100000\n",
                "memory/pod/memory.limit_in_bytes": "256000000\n",
            },
        ),
        (  # a container of version 1 sees its own group as the root
            "4:memory:/docker/1\n2:cpu,cpuacct:/docker/1\n",
            {
                "cpu/cpu.cfs_quota_us": "50000\n",
                "cpu/cpu.cfs_period_us": "100000\n",
                "memory/memory.limit_in_bytes": "256000000\n",
            },
        ),
        (
            "0::/pod\n",
            {"cgroup.controllers": "cpu memory", "pod/cpu.max": "50000 100000\n", "pod/memory.max": "256000000\n"},
        ),
    ],
)
def test_the_bench_reads_its_own_limits_as_a_fraction(own, files, tmp_path: Path) -> None:
    found = controllers_of(tmp_path, own, files)
    assert found["cpu"].cpus() == 0.5
    assert found["memory"].memory_bytes() == 256_000_000


def test_in_version_2_a_group_is_created_where_controllers_are_passed_on(tmp_path: Path) -> None:
    files = {
        "cgroup.controllers": "cpu memory",
        "cgroup.subtree_control": "memory",
        "user/cgroup.subtree_control": "cpu memory",
        "user/scope/cgroup.procs": "1",
    }
    own = controllers_of(tmp_path, "0::/user/scope\n", files)
    new = limits._new_group(own["cpu"], "under-siege-1", ["cpu", "memory"])
    assert new.folder == tmp_path / "fs" / "user" / "under-siege-1"
    limits._apply({"cpu": new, "memory": new}, Limits(0.5, 256_000_000))
    assert (new.folder / "cpu.max").read_text() == "50000 100000"
    assert (new.folder / "memory.max").read_text() == "256000000"
    assert (new.folder / "memory.swap.max").read_text() == "0"


def test_the_counters_of_both_versions_are_read_in_the_same_unit(tmp_path: Path) -> None:
    counters = "nr_periods 20\nnr_throttled 15\n{}\n"
    first = {
        "cpu/pod/cpu.stat": counters.format("throttled_time 1500000000"),
        "memory/pod/memory.oom_control": "oom_kill 2",
    }
    second = {
        "cgroup.controllers": "cpu memory",
        "pod/cpu.stat": counters.format("throttled_usec 1500000"),
        "pod/memory.events": "oom 3\noom_kill 2",
    }
    for number, (own, files) in enumerate(((V1, first), ("0::/pod\n", second))):
        (tmp_path / str(number)).mkdir()
        usage = limits.Group(controllers_of(tmp_path / str(number), own, files), Limits(0.5)).usage()
        assert (usage.periods, usage.throttled_periods, usage.throttled_s, usage.oom_kills) == (20, 15, 1.5, 2)


@pytest.mark.parametrize(
    ("text", "size"),
    [("512MB", 512_000_000), ("0.5 GB", 500_000_000), ("512mib", 2**29), ("1GiB", 2**30), ("512", None), ("x", None)],
)
def test_sizes_have_decimal_or_binary_units(text: str, size: int | None) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize(
    ("name", "value"), [("cpus", 0.0), ("cpus", 9999), ("cpus", "half"), ("memory", "1KB"), ("memory", "9999999GB")]
)
def test_impossible_limits_are_rejected_with_the_possible_range(name: str, value: object) -> None:
    with pytest.raises(BadInputError, match=f"^--{name} .*expected .* from .* to "):
        limit_values(name, [value], f"--{name}")
