"""Describe this machine and its software."""

import math
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path

import psutil

from common.workers import cpu_limit
from under_siege.host.commands import CommandError, output_of
from under_siege.host.cpu_division import CpuDivision
from under_siege.host.interpreter import Interpreter
from under_siege.paths import IS_INSTALLED, ROOT
from under_siege.record.result import Environment
from under_siege.subprocess_scripts.cpu_speed_loop import WORK


def describe_environment(pythons: Iterable[Interpreter], division: CpuDivision) -> Environment:
    """Return a description of this machine, its division and its software, for a result file."""
    return Environment(
        cpu_model=_cpu_model(),
        cpus=psutil.cpu_count() or 1,
        usable_cpus=max(1, math.ceil(division.server_limit())),
        load_cpus=len(division.load),
        cpu_limit=limit if (limit := cpu_limit()) < len(os.sched_getaffinity(0)) else None,
        memory_bytes=psutil.virtual_memory().total,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        pythons={python.version: python.build for python in pythons},
        commit=_commit(),
        speed_probe=f"{platform.python_version()} {WORK}",
    )


def _cpu_model() -> str:
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    model = re.search(r"^model name[^:\n]*:(.*)", info, re.MULTILINE)
    return model[1].strip() if model else platform.machine()


def _commit() -> str:
    """Return the commit of this checkout, with a `+` if files have changed since, or an empty string outside git."""
    if IS_INSTALLED:
        return ""
    # Without this option, a killed bench or a full disk could leave a lock in the user's repository.
    command = ["git", "--no-optional-locks", "-C", str(ROOT), "status", "--porcelain=v2", "--branch"]
    try:
        status = output_of([*command, "--untracked-files=no"])
    except CommandError:
        return ""
    head = re.match(r"# branch\.oid ([0-9a-f]{12})", status)
    if head is None:
        return ""
    is_changed = re.search(r"^[^#]", status, re.MULTILINE)
    return f"{head[1]}+" if is_changed else head[1]
