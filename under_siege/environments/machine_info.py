"""What one has to know about the machine and the versions to believe a result."""

import platform
import re
import shutil
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from common.cpus import usable_cpus
from under_siege.model.record import Environment
from under_siege.monitors.cpu_speed_probe import SPEED_PROBE
from under_siege.paths import IS_INSTALLED, ROOT, server_environment
from under_siege.targets.interpreter import Interpreter, evaluate

_PACKAGES = (
    *("aiohttp", "celery", "distributed", "flask", "gevent", "gunicorn", "kombu", "pebble", "psutil", "redis"),
    *("bottle", "cheroot", "django", "fastapi", "granian", "hypercorn", "starlette", "tornado", "uvicorn"),
    *("waitress", "werkzeug"),
)
_ASK = f"""
import importlib.metadata, json
answer = {{}}
for name in {_PACKAGES}:
    try:
        answer[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
"""


def describe_environment(pythons: Iterable[Interpreter]) -> Environment:
    """This machine and these versions."""
    with ThreadPoolExecutor() as asking:  # they are other programs' answers, each of which takes a while
        commit, speed_probe = asking.submit(_commit), asking.submit(_work_of_the_metronome)
    return Environment(
        cpu_model=_cpu_model(),
        cpus=psutil.cpu_count() or 1,
        usable_cpus=usable_cpus(),
        memory_bytes=psutil.virtual_memory().total,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        pythons={python.version: python.build for python in pythons},
        commit=commit.result(),
        speed_probe=f"{platform.python_version()} {speed_probe.result()}",
    )


def _work_of_the_metronome() -> str:
    asked = subprocess.run(
        [*SPEED_PROBE, "--work"], env=server_environment(), capture_output=True, text=True, check=True
    )
    return asked.stdout.strip()


def packages_of(python: str) -> dict[str, str]:
    """Return name and version of the packages that servers need and that Python has; none if it can't be asked."""
    try:
        versions: dict[str, str] = evaluate(python, _ASK, "-P")
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return versions


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _commit() -> str:
    """The commit of this checkout, with `+` behind it if files were changed since; empty outside of git."""
    if IS_INSTALLED or shutil.which("git") is None:
        return ""
    # Without a lock, which a bench that is killed, or a full disk, would leave in the user's repository.
    command = ["git", "--no-optional-locks", "-C", str(ROOT), "status", "--porcelain=v2", "--branch"]
    asked = subprocess.run([*command, "--untracked-files=no"], capture_output=True, text=True, check=False)
    head = re.match(r"# branch\.oid ([0-9a-f]{12})", asked.stdout)
    is_changed = re.search(r"^[^#]", asked.stdout, re.MULTILINE)
    return head[1] + "+" * bool(is_changed) if head else ""
