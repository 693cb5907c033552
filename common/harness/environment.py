"""What one has to know about the machine and the versions to believe a result."""

import importlib.metadata
import platform
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import psutil

from common.cpus import usable_cpus
from common.harness.interpreter import Interpreter
from common.record import Environment
from common.strategies import ROOT

_PACKAGES = ("aiohttp", "distributed", "flask", "gevent", "gunicorn", "pebble", "psutil", "tornado", "werkzeug")


def describe_environment(siege: str, pythons: Iterable[Interpreter]) -> Environment:
    """This machine and these versions."""
    return Environment(
        cpu_model=_cpu_model(),
        cpus=psutil.cpu_count() or 1,
        usable_cpus=usable_cpus(),
        memory_bytes=psutil.virtual_memory().total,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        pythons={python.version: python.build for python in pythons},
        packages={name: importlib.metadata.version(name) for name in _PACKAGES},
        siege=siege,
        commit=_commit(),
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _commit() -> str:
    """The commit of this checkout, with `+` behind it if files were changed since; empty outside of git."""
    if shutil.which("git") is None:
        return ""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except subprocess.CalledProcessError:
        return ""


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
