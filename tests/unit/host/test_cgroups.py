"""Cgroups of both versions, in simulated file systems, and the values of the axes `cpus` and `memory`."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import BadInputError
from under_siege.host import limit_check, limits
from under_siege.host.limit_check import limits_allowed
from under_siege.host.limits import (
    CPU,
    MEMORY,
    Controller,
    Group,
    Limits,
    MissingControllerError,
    limit_values,
    own_controllers,
    size_bytes,
)
from under_siege.host.user_scope import RestartError

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


def test_a_group_with_processes_passes_on_no_controller_but_the_root_of_all_groups_does(tmp_path: Path) -> None:
    files = {"pod/cgroup.type": "domain\n", "pod/cgroup.procs": "7\n", "pod/cgroup.subtree_control": ""}
    root = {"cgroup.controllers": "cpu memory", "cgroup.procs": "1\n", "cgroup.subtree_control": ""}
    own = controllers_of(tmp_path, "0::/pod\n", {**root, **files})["cpu"]
    with pytest.raises(OSError, match="busy"):
        own.pass_on(["cpu"])
    assert (own.folder / "cgroup.subtree_control").read_text() == ""  # it would turn new groups into groups of threads
    new = limits._new_group(own, "under-siege-1", ["cpu"])
    assert new.folder == own.top / "under-siege-1"
    assert (own.top / "cgroup.subtree_control").read_text() == "+cpu"


def test_a_controller_that_the_system_lacks_is_named(tmp_path: Path) -> None:
    own = controllers_of(tmp_path, "0::/\n", {"cgroup.controllers": "cpu pids", "cgroup.subtree_control": ""})
    with pytest.raises(MissingControllerError, match="no cgroup controller memory"):
        limits._new_group(own["memory"], "under-siege-1", ["cpu", "memory"])
    assert not (own["memory"].folder / "under-siege-1").exists()


@pytest.mark.parametrize(
    ("cpu_max", "memory_max", "ignored"),
    [
        ("50000 100000", "255995904", ""),
        ("max 100000", "255995904", "ignores the quota of 0.5 CPUs"),
        ("60000 100000", "255995904", "ignores the quota of 0.5 CPUs"),
        ("50000 100000", "max", "ignores the limit of 256 MB"),
    ],
)
def test_limits_that_the_system_ignores_are_noticed(
    cpu_max: str, memory_max: str, ignored: str, tmp_path: Path
) -> None:
    files = {"cgroup.controllers": "cpu memory", "pod/cpu.max": cpu_max, "pod/memory.max": memory_max}
    group = Group(controllers_of(tmp_path, "0::/pod\n", files), Limits(0.5, 256_000_000))
    with pytest.raises(OSError, match=ignored) if ignored else contextlib.nullcontext():
        group.must_hold()


HALF, WHOLE = Limits(0.5), Limits(1.0, 10**9)
REFUSED, RESTARTED, ALLOWED, MOVED = "refused", "restarted", "allowed", "moved"
DENIED, BUSY, READ_ONLY = (
    PermissionError(errno.EACCES, "denied"),
    OSError(errno.EBUSY, "busy"),
    OSError(errno.EROFS, "ro"),
)


@pytest.mark.parametrize(
    ("user", "is_alone", "has_systemd", "in_container", "problems", "outcome"),
    [
        (0, False, False, False, [None], ALLOWED),
        (0, True, True, False, [None], MOVED),  # in a service or a scope
        (1000, False, True, False, [DENIED], RESTARTED),  # in a terminal
        (1000, True, True, False, [None], MOVED),  # in the scope
        (1000, False, False, False, [DENIED], REFUSED),
        (1000, False, False, False, [None], ALLOWED),  # root has delegated a group
        (0, False, False, True, [BUSY, None], MOVED),  # in a privileged container
        (0, False, False, True, [BUSY, BUSY], REFUSED),
        (0, False, False, True, [READ_ONLY, READ_ONLY], REFUSED),
    ],
)
def test_what_the_bench_does_so_that_it_can_create_groups(
    user: int,
    is_alone: bool,
    has_systemd: bool,
    in_container: bool,
    problems: list[OSError | None],
    outcome: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = {"pod/cgroup.type": "domain", **({"cgroup.type": "domain"} if in_container else {})}
    own = controllers_of(
        tmp_path, "0::/\n" if in_container else "0::/pod\n", {**kind, "cgroup.controllers": "cpu memory"}
    )
    moved, tried = list[Controller](), iter(problems)

    @contextlib.contextmanager
    def created(limits: Limits) -> Iterator[None]:
        assert limits == WHOLE  # the largest of all limits
        if problem := next(tried):
            raise problem
        yield

    @contextlib.contextmanager
    def moved_out(group: Controller, needed: list[str]) -> Iterator[None]:
        assert needed == [CPU, MEMORY]
        moved.append(group)
        yield

    for name, value in {
        "own_controllers": lambda: own,
        "created": created,
        "moved_out": moved_out,
        "_is_alone": lambda _: is_alone,
        "can_restart": lambda: has_systemd and not is_alone,
    }.items():
        monkeypatch.setattr(limit_check, name, value)
    monkeypatch.setattr("os.geteuid", lambda: user)
    expected = {REFUSED: pytest.raises(BadInputError), RESTARTED: pytest.raises(RestartError)}
    with expected.get(outcome, contextlib.nullcontext()), limits_allowed([HALF, WHOLE, Limits()]):
        assert bool(moved) is (outcome == MOVED)


REMEDIES = [
    (1000, False, DENIED, "(denied); run: sudo bench.py run 2 --cpus 0.5 --memory=1GB --quiet"),
    (
        0,
        True,
        BUSY,
        "(busy); start the container with docker run --cpus 1 --memory 1000000000 and, in it, run: bench.py ",
    ),
    (1000, True, DENIED, "and, in it, run: bench.py run 2 --quiet"),
    (0, False, READ_ONLY, "and, in it, run: bench.py run 2 --quiet"),
    (
        0,
        False,
        MissingControllerError(MEMORY),
        "--memory needs the cgroup controller memory, which this system lacks; run: ",
    ),
    (1000, False, MissingControllerError(MEMORY), "; run: bench.py run 2 --cpus 0.5 --quiet"),
    (
        0,
        True,
        MissingControllerError(CPU),
        "start the container with docker run --cpus 1 --memory 1000000000 and, in it,",
    ),
]


@pytest.mark.parametrize(("user", "in_container", "problem", "remedy"), REMEDIES)
def test_the_error_ends_with_the_command_that_works_on_this_machine(
    user: int, in_container: bool, problem: OSError, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = {"cgroup.type": "domain"} if in_container else {}
    own = controllers_of(tmp_path, "0::/\n", {**kind, "cgroup.controllers": "cpu memory"})
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("sys.argv", ["bench.py", "run", "2", "--cpus", "0.5", "--memory=1GB", "--quiet"])
    assert remedy in limit_check._refusal(problem, WHOLE, own[CPU])
    monkeypatch.setattr("sys.argv", ["bench.py", "run", "suite.toml"])
    assert limit_check._without("--cpus") == "remove them from [limits] in the suite, and run: bench.py run suite.toml"


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
