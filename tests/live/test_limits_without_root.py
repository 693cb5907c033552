"""`--cpus` and `--memory` for users without root, and in containers."""

import contextlib
import errno
import functools
import os
import shutil
import site
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from command import invoke
from conftest import ROOT, wait_until

from under_siege.host import limit_check, limits
from under_siege.host.limit_check import moved_out
from under_siege.host.limits import CPU, MEMORY, Controller, Limits, created, limited, own_controllers
from under_siege.record.record import CaseFailedError

NOBODY = 65534
COMMANDS = [
    ("run", "2", "--rounds", "1"),
    ("run", "shop.toml"),
    ("drill", "2", "--fault", "leave"),
    ("capacity", "2"),
    ("trace", "2"),
    ("profile", "2"),
]
SUITE = """
[limits]
cpus = 0.5
[servers.one]
command = "sh -c 'touch started' {port}"
"""


@functools.cache
def without_root() -> tuple[str, ...]:
    """Return words that run Python as a user without root; skip the test if there is no such user."""
    if os.geteuid() != 0:
        return (sys.executable,)
    for python in (sys.executable, shutil.which("python3", path="/usr/bin")):
        words = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", "HOME=/nonexistent")
        words = (*words, f"PYTHONPATH={ROOT}:{':'.join(site.getsitepackages())}", str(python), "-B")
        with contextlib.suppress(OSError):
            if subprocess.run([*words, "-c", "import under_siege.cli, numpy"], capture_output=True).returncode == 0:
                return words
    pytest.skip("no Python here can be run by a user without root")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: f"{words[0]}_{words[1].partition('.')[0]}")
def test_a_user_who_can_create_no_group_gets_the_command_that_works_before_anything_starts(
    command: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def denied(_: Limits) -> Iterator[None]:
        raise PermissionError(errno.EACCES, "denied")
        yield

    for module in (limits, limit_check):
        monkeypatch.setattr(module, "created", denied)
    (tmp_path / "shop.toml").write_text(SUITE)
    options = [] if command[1] == "shop.toml" else ["--cpus", "0.5"]
    ran = invoke(*command, *options, folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("bench.py: --cpus and --memory need a cgroup, but none can be created (denied); ")
    assert "run: " in line
    assert "internal error" not in line
    assert not (tmp_path / "started").exists()


def test_a_real_user_without_root_gets_the_command_that_works(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    environment = {
        "PATH": os.environ["PATH"],
        "XDG_RUNTIME_DIR": str(tmp_path),
    }  # without a systemd that could delegate
    command = [*without_root(), str(ROOT / "bench.py"), "trace", "2", "--cpus", "0.5"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode != 2:
        pytest.skip("this user may create cgroups")
    assert len(ran.stderr.splitlines()) == 1
    assert ran.stderr.startswith("bench.py: --cpus and --memory need a cgroup, but none can be created (")
    assert ran.stdout == ""


IN_GROUP = """
import subprocess, sys
from pathlib import Path
from under_siege.host.limit_check import limits_allowed
from under_siege.host.limits import Limits, limited
limits = Limits(0.5, 10**8)
with limits_allowed([limits]), limited(limits) as group:
    subprocess.run(group.command(["cat", "/proc/self/cgroup"]), check=True)
"""


@contextlib.contextmanager
def delegated() -> Iterator[list[Path]]:
    """Yield new groups that belong to a user without root, as a session of systemd delegates them."""
    if os.geteuid() != 0:
        pytest.skip("only root can delegate a cgroup")
    name, folders = f"under-siege-test-{uuid.uuid4().hex[:12]}", list[Path]()
    with contextlib.ExitStack() as stack:
        try:
            for controller in own_controllers().values():
                group = limits._new_group(controller, name, [CPU, MEMORY] if controller.is_v2 else [])
                if group.folder not in folders:
                    folders.append(group.folder)
                    stack.callback(group.folder.rmdir)
                    files = ["cgroup.procs", "cgroup.subtree_control"] if group.is_v2 else ["cgroup.procs"]
                    for path in (group.folder, *(group.folder / file for file in files)):
                        os.chown(path, NOBODY, NOBODY)
        except OSError as error:
            pytest.skip(f"no cgroup can be created: {error.strerror}")
        yield folders


def test_a_user_without_root_can_limit_servers_in_a_delegated_group(tmp_path: Path) -> None:
    with delegated() as folders:
        enter = 'for group in $0; do echo $$ >"$group/cgroup.procs" || exit 1; done; exec "$@"'
        command = ["sh", "-c", enter, " ".join(map(str, folders)), *without_root(), "-c", IN_GROUP]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        for folder in folders:
            assert f"/{folder.name}/under-siege-" in ran.stdout
            wait_until(lambda folder=folder: not [path for path in folder.iterdir() if path.is_dir()])


SYSTEMD_RUN = """#!/bin/sh
echo "$*" >>"{log}"
while [ "${{1#-}}" != "$1" ]; do [ "$1" = -p ] && shift; shift; done
exec "$@"
"""
# The bench of a user without root whose systemd delegates a group or, with `never`, lets no one create groups.
BENCH = """
import contextlib, os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from under_siege.host import limit_check, limits, user_scope
from under_siege.host.limits import Controller, Group, Limits
can_create = user_scope.IS_RESTARTED and {works}
@contextlib.contextmanager
def created(limits):
    if not can_create:
        raise PermissionError(13, "denied")
    yield Group({{}}, limits)
limits.created = limit_check.created = created
limit_check.own_controllers = lambda: {{"cpu": Controller(Path({tree!r}), Path("/"), True)}}
os.geteuid = lambda: 1000
from under_siege.cli import bench
bench()
"""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a stand-in for systemd-run on the PATH, and return the file in which it writes its arguments."""
    log, program = tmp_path / "log", tmp_path / "bin" / "systemd-run"
    program.parent.mkdir()
    program.write_text(SYSTEMD_RUN.format(log=log))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return log


def bench_of_a_user(folder: Path, *, works: bool) -> subprocess.CompletedProcess[str]:
    (folder / "bench.py").write_text(BENCH.format(root=str(ROOT), tree=str(folder), works=works))
    words = ["trace", "2", "--task", "sign_up", "--requests", "2", "--cpus", "0.5", "--out", "trace.json"]
    return subprocess.run([sys.executable, "bench.py", *words], cwd=folder, capture_output=True, text=True, check=False)


def test_the_bench_starts_again_in_a_scope_of_the_user(systemd: Path, tmp_path: Path) -> None:
    ran = bench_of_a_user(tmp_path, works=True)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "trace.json").exists()
    scope = "--user --scope --quiet -p Delegate=yes"
    restarted = f"{scope} {sys.executable} bench.py trace 2 --task sign_up --requests 2 --cpus 0.5 --out trace.json"
    assert systemd.read_text().splitlines() == [f"{scope} true", restarted]


def test_the_bench_starts_again_only_once(systemd: Path, tmp_path: Path) -> None:
    ran = bench_of_a_user(tmp_path, works=False)
    assert ran.returncode == 2
    assert len(ran.stderr.splitlines()) == 1
    assert len(systemd.read_text().splitlines()) == 2


def test_no_group_is_left_behind_if_another_one_can_not_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu").mkdir()
    own = {
        CPU: Controller(tmp_path / "cpu", tmp_path / "cpu", is_v2=False),
        MEMORY: Controller(tmp_path / "gone", tmp_path / "gone", is_v2=False),
    }
    monkeypatch.setattr(limits, "own_controllers", lambda: own)
    with pytest.raises(FileNotFoundError), created(Limits(0.5, 10**8)):
        pass
    assert list((tmp_path / "cpu").iterdir()) == []


@contextlib.contextmanager
def group_with_a_process() -> Iterator[tuple[Controller, str, subprocess.Popen[bytes]]]:
    """Yield a new cgroup of version 2 with a process, and the name of a controller that it may pass on."""
    top = next(
        (path for path in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")) if (path / "cgroup.procs").exists()),
        None,
    )
    passed_on = (top / "cgroup.controllers").read_text().split() if top and os.geteuid() == 0 else []
    if top is None or not passed_on:
        pytest.skip("no cgroup of version 2 can be created here")
    group = limits._new_group(
        Controller(top, top, is_v2=True), f"under-siege-test-{uuid.uuid4().hex[:12]}", passed_on[:1]
    )
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            (group.folder / "cgroup.procs").write_text(str(process.pid))
            yield group, passed_on[0], process
        finally:
            process.kill()
            process.wait()
            wait_until(lambda: not (group.folder / "cgroup.procs").read_text())
            group.folder.rmdir()


def test_in_a_container_the_processes_are_in_a_child_group_until_the_run_is_over() -> None:
    with group_with_a_process() as (group, controller, process):
        with pytest.raises(OSError, match="busy"):
            group.pass_on([controller])
        with moved_out(group, [controller]):
            group.pass_on([controller])
            (child,) = (path for path in group.folder.iterdir() if path.is_dir())
            assert (child / "cgroup.procs").read_text().split() == [str(process.pid)]
        assert (group.folder / "cgroup.procs").read_text().split() == [str(process.pid)]
        assert (group.folder / "cgroup.subtree_control").read_text().split() == []
        assert not child.exists()


def lift_the_limit_during_a_case() -> None:
    with limited(Limits(0.5)) as group:
        assert group is not None
        (folder,) = group.folders
        name, unlimited = ("cpu.max", "max") if (folder / "cpu.max").exists() else ("cpu.cfs_quota_us", "-1")
        (folder / name).write_text(unlimited)


def test_a_case_fails_if_its_limits_were_not_enforced_to_the_end() -> None:
    try:
        with limited(Limits(0.5)):
            pass
    except CaseFailedError as error:
        pytest.skip(str(error))
    with pytest.raises(CaseFailedError, match=r"not enforced to the end: the system ignores the quota of 0\.5 CPUs"):
        lift_the_limit_during_a_case()
