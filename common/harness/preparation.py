"""What a suite wants to have run before any of its servers is started: a build, a tree of files, packages of Node."""

from dataclasses import replace

from common.errors import BadInputError
from common.harness.failures import CaseFailedError
from common.harness.plan import Plan
from common.harness.ready.virtualenv import run_command
from common.harness.start import Start, preparing, preparing_all
from common.harness.watcher import Watcher


async def prepared(plan: Plan, watcher: Watcher) -> Plan:
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


async def _ran(start: Start, watcher: Watcher) -> str:
    """Why it could not be run; empty if it was."""
    command = " ".join(start.words)
    watcher.say(f"first: {command}")
    try:
        await run_command(start.words, "", start.folder, start.environment)
    except BadInputError as error:
        return f"what it needs could not be prepared with {command!r}: {error}"
    except OSError as error:
        return f"what it needs could not be prepared: {start.words[0]!r} can't be started: {error.strerror}"
    return ""
