"""The Python that each server runs in: an environment with what it needs, and what is in that."""

import ast
import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from common.errors import BadInputError
from under_siege.environments.machine_info import packages_of
from under_siege.environments.venvs import environment_with, run_command, with_packages
from under_siege.errors import CaseFailedError
from under_siege.model.case import Case
from under_siege.model.target import filled_words
from under_siege.paths import ROOT
from under_siege.run.plan import Plan
from under_siege.run.progress_listener import ProgressListener
from under_siege.run.start_command import Start, missing_library, preparing, preparing_all
from under_siege.targets.strategies import SERVERS


def needed_by(servers: Iterable[Path | None], tasks: Iterable[str]) -> set[str] | None:
    """By the names that they are imported by; None where a script or a task of the user's may need any."""
    paths = list(servers)
    if any(path is None or path.parent != SERVERS for path in paths) or any(":" in task for task in tasks):
        return None
    found, left = set[str](), [path for path in paths if path]
    seen = set(left)
    while left:
        for module in _imported(left.pop()):
            package = module.partition(".")[0]
            path = (ROOT / module.replace(".", "/")).with_suffix(".py")
            if package != "common":
                found.add(package)
            elif path not in seen and path.exists():
                seen.add(path)
                left.append(path)
    return found


def _imported(path: Path) -> Iterator[str]:
    """The modules that it names, and what it takes from them, which may be modules, too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{one.name}" for one in node.names))


async def prepared(plan: Plan, watcher: ProgressListener) -> Plan:
    """The same plan once all that has run, each command once; and which cases can't be measured for want of it."""
    if plan.suite.prepare and (why := await _ran(preparing_all(plan), watcher)):
        return replace(plan, unprepared=dict.fromkeys((*plan.cases, *plan.ceilings), why))
    found: dict[tuple[str, ...], str] = {}
    failed = {}
    for case in (*plan.cases, *plan.ceilings):
        if not plan.targets[case.server].prepare:
            continue
        try:
            start = preparing(plan, case)
        except CaseFailedError:
            continue  # it will fail in its turn, which says why
        key = (*start.words, start.environment["PATH"])
        if key not in found:
            found[key] = await _ran(start, watcher)
        if found[key]:
            failed[case] = found[key]
    return replace(plan, unprepared=failed)


async def _ran(start: Start, watcher: ProgressListener) -> str:
    """Why it could not be run; empty if it was."""
    command = " ".join(start.words)
    watcher.say(f"first: {command}")
    try:
        await run_command(start.words, start.folder, start.environment)
    except BadInputError as error:
        return f"what it needs could not be prepared with {command!r}: {error}"
    except OSError as error:
        return f"what it needs could not be prepared: {start.words[0]!r} can't be started: {error.strerror}"
    return ""


async def with_environments(plan: Plan, watcher: ProgressListener) -> Plan:
    """The same plan with Pythons that have what the servers need, or with the environments that they name."""
    if (folder := plan.suite.folder) is not None:
        wanted = {
            (_requirements(plan, case), case.python): plan.python_of(case)
            for case in (*plan.cases, *plan.ceilings)
            if not missing_library(plan.targets[case.server])
        }
        made = {
            (requirements, python.version): await environment_with(requirements, python, folder, watcher.warn)
            for (requirements, _), python in wanted.items()
            if requirements
        }
        return replace(plan, environments=made)
    pythons = dict(plan.pythons)
    for version, python in plan.pythons.items():
        cases = [case for case in plan.cases if plan.python_of(case) is python]
        needed = needed_by((plan.targets[case.server].path for case in cases), (case.task or "" for case in cases))
        if cases:
            pythons[version] = await with_packages(python, watcher.warn, needed)
    return replace(plan, pythons=pythons)


async def package_versions(plan: Plan) -> dict[str, dict[str, str]]:
    """Of the packages that servers need, for each Python that has some."""
    return {name: await asyncio.to_thread(packages_of, path) for name, path in _pythons_with_packages(plan)}


def _pythons_with_packages(plan: Plan) -> Iterator[tuple[str, str]]:
    """What each is called, and its path: the environments of a suite, or else the Pythons."""
    made = {key: folder for key, folder in plan.environments.items() if not isinstance(folder, str)}
    for (requirements, version), folder in made.items():
        yield f"{version} with {', '.join(requirements)}", str(folder / "bin" / "python")
    if not made:
        yield from ((version, python.path) for version, python in plan.pythons.items())


def _requirements(plan: Plan, case: Case) -> tuple[str, ...]:
    return tuple(filled_words(plan.targets[case.server].requirements, dict(case.values)))
