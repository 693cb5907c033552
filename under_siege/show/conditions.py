"""State how and where a result was measured."""

import shlex
from collections.abc import Iterator
from typing import Any

from under_siege.formatting import counted, listed
from under_siege.record.result import Result
from under_siege.show.case_names import MOST_NAMES, name_of


def identity(result: Result) -> dict[str, Any]:
    """Return the keys with which the JSON of every result begins. They must not change, because users rely on them."""
    return {name: getattr(result, name) for name in ("schema", "command", "began_at", "environment")}


def began_at(result: Result) -> str:
    """Return the start of the measurement, such as `2026-11-26 05:24:35 UTC`."""
    return result.began_at.replace("T", " ").replace("+00:00", " UTC")


def interruption(result: Result) -> str:
    """Return a sentence about a run that was interrupted, or an empty string."""
    if not result.planned:
        return ""
    cases, missing = [each.case for each in result.planned], result.unmeasured()
    if not missing:
        return "Interrupted: every case was measured, but in fewer rounds than planned."
    names = listed([name_of(case, cases) for case in missing], MOST_NAMES)
    return f"Interrupted, so no conclusion: {len(missing)} of {counted(len(cases), 'case')} not measured ({names})."


def facts(result: Result) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each fact that is needed to reproduce the result: the command and the machine."""
    machine = result.environment
    yield "command", shlex.join(result.command)
    yield "CPU", f"{machine.cpu_model}, {machine.available_cpus:g} of {machine.cpus} CPUs"
    yield "memory", f"{machine.memory_bytes / 1e9:.0f} GB"
    yield "system", machine.system
    for version, build in machine.pythons.items():
        yield f"Python {version}", build
    for python, packages in machine.packages_of.items():
        name = f"packages of Python {python}" if len(machine.packages_of) > 1 else "packages"
        yield name, ", ".join(f"{package} {version}" for package, version in packages.items())
    yield from ((tool, version) for tool, version in machine.tools.items() if version)
    if machine.commit:
        yield "Under Siege", f"commit {machine.commit}"
