"""The Python that each server runs in: an environment with what it needs, and what is in that."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from common.harness.plan import Plan
from common.harness.ready.environment import packages_of
from common.harness.ready.needed import needed_by
from common.harness.ready.requirements import environment_with
from common.harness.ready.virtualenv import with_packages
from common.harness.start import missing_library
from common.harness.watcher import Watcher
from common.model.case import Case
from common.model.template import filled_words


async def with_environments(plan: Plan, watcher: Watcher) -> Plan:
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
