"""What each fault does to a server, and what is looked at then. All of it is bounded in count and in time."""

import asyncio
import contextlib
import signal
import time

import psutil

from common.cpus import usable_cpus
from under_siege.faults.fault_context import USERS, Scene
from under_siege.faults.raw_http import ask_and_go, half_requests, send_malformed
from under_siege.faults.server_fixture import quick_s
from under_siege.faults.users import LATE, LOST, REFUSED, WRONG
from under_siege.monitors.resource_usage import used_cpu_s
from under_siege.processes.managed_process import GRACE_S, until

AFTER_S = 0.6  # of load under a fault that stays
NEVER_S = 5.0  # after so long it is called never
NEVER = -1.0  # what is seen then, as JSON has no infinity
LEAVERS, STAY_S = 25, 0.15
TIMES_USERS = 10
SLOW_ONES, MALFORMED = 50, 10_000
LINE_LIMIT_S = 0.3  # for what the server says at its end
ONLY_ONE = "it works in its only process"
STOP_CPU_S, LEAVE_CPU_S, MALFORMED_CPU_S = 0.1, 0.3, 0.001  # of the tasks of these
CPU_LIMIT_S, CALM_LOOKS = 12.0, 2  # until nobody computes any more, and so many looks in a row have to say so


async def nothing(scene: Scene) -> None:
    """The control."""
    async with scene.under_load():
        scene.fault_now()
        await asyncio.sleep(AFTER_S)


async def kill_a_worker(scene: Scene) -> None:
    """SIGKILL to the busiest process below the first one."""
    if not scene.family():
        scene.incident.without = ONLY_ONE
        return
    async with scene.under_load():
        if not await strike(scene):
            return
        if not await scene.until_whole(NEVER_S):
            scene.incident.left_whole = False


async def strike(scene: Scene) -> bool:
    """Kills the one that works most; false if there is none."""
    victim = await asyncio.to_thread(busiest, scene.family())
    if victim is None:
        scene.incident.without = ONLY_ONE
        return False
    scene.fault_now()
    with contextlib.suppress(psutil.Error):
        victim.kill()
    return True


def busiest(family: list[psutil.Process]) -> psutil.Process | None:
    """Who computed most within a moment, or at all; only what was started by the server is ever touched."""
    before = {process: _cpu_s(process) for process in family}
    time.sleep(0.15)  # of work
    used = {process: _cpu_s(process) - cpu_s for process, cpu_s in before.items()}
    return max(used, key=lambda process: (used[process], before[process]), default=None)


def _cpu_s(process: psutil.Process) -> float:
    try:
        return used_cpu_s(process)
    except psutil.Error:
        return 0.0


async def stop(scene: Scene) -> None:
    """SIGTERM with as many requests as the load has, as soon as the first of their tasks have begun."""
    scene.let_tasks_take(STOP_CPU_S)
    requests, seen = scene.incident.requests, scene.incident.seen
    before, lines = scene.begun(), scene.server.lines_said()
    scene.began_s = time.monotonic()
    asking = [
        asyncio.create_task(scene.crowd.ask(requests, scene.began_s, patience_s=3 * GRACE_S)) for _ in range(USERS)
    ]
    await until(lambda: scene.begun() > before, 1.0)
    await asyncio.sleep(STOP_CPU_S / 4)
    scene.fault_now()
    scene.signal(signal.SIGTERM)
    await until(lambda: not scene.server.alive(), 3 * GRACE_S)
    outcomes = await asyncio.gather(*asking)
    scene.incident.ended_s = scene.now_s()
    answered, begun = outcomes.count(""), scene.begun() - before if scene.has_our_tasks else USERS
    seen["asked"], seen["answered"], seen["begun"] = len(outcomes), answered, begun
    seen["refused"] = outcomes.count(REFUSED)
    seen["begun_lost"] = max(0, begun - answered)
    assert scene.incident.fault_at_s is not None
    seen["exit_s"] = scene.now_s() - scene.incident.fault_at_s
    status = scene.server.exit_status()
    if status is not None:
        seen["exit"] = status
    if seen["begun_lost"]:
        await until(lambda: scene.server.lines_said() > lines, LINE_LIMIT_S)  # they are read on another thread
    seen["lines"] = scene.server.lines_said() - lines


async def stop_long(scene: Scene) -> None:
    """The same with tasks that would go on for ever."""
    for number in range(USERS):
        scene.let_be_endless(str(number))
    await stop(scene)


async def leave(scene: Scene) -> None:
    """Clients that ask and go: what is computed for nobody, and how long the next one waits."""
    scene.let_tasks_take(LEAVE_CPU_S)
    host, port = scene.address
    path = scene.server.load_url.removeprefix(scene.server.url)
    scene.began_s = time.monotonic()
    cpu_s, before = scene.cpu_s(), scene.begun()
    scene.fault_now()
    await ask_and_go(host, port, path, LEAVERS, STAY_S)
    asked_s = time.monotonic()
    outcome = await scene.crowd.ask(scene.incident.requests, scene.began_s, patience_s=CPU_LIMIT_S)
    next_s = time.monotonic() - asked_s
    await _calm(scene)
    seen, expected, ours = scene.incident.seen, scene.crowd.expected, scene.has_our_tasks
    each_s = LEAVE_CPU_S if ours else expected.cpu_s or expected.task_s
    seen["next_s"] = next_s if not outcome else NEVER
    seen["cpu_s"] = max(0.0, scene.cpu_s() - cpu_s - each_s)
    seen["asked_cpu_s"], seen["task_s"] = LEAVERS * each_s, each_s if ours else expected.task_s
    seen["begun"] = scene.begun() - before - 1
    scene.incident.ended_s = scene.now_s()


async def _calm(scene: Scene) -> None:
    """Until the server computes nothing any more, or the limit is reached."""
    deadline_s, looks = time.monotonic() + CPU_LIMIT_S, 0
    while looks < CALM_LOOKS and time.monotonic() < deadline_s:
        looks = looks + 1 if await scene.is_calm() else 0


async def overload(scene: Scene) -> None:
    """Ten times the users at once, then one alone until that is quick."""
    requests, seen = scene.incident.requests, scene.incident.seen
    scene.began_s = time.monotonic()
    scene.fault_now()
    crowd = [scene.crowd.ask(requests, scene.began_s) for _ in range(TIMES_USERS * USERS)]
    outcomes = await asyncio.gather(*crowd)
    for name, outcome in (("answered", ""), ("refused", REFUSED), ("late", LATE), ("lost", LOST), ("wrong", WRONG)):
        seen[name] = outcomes.count(outcome)
    seen["quick_s"] = await _until_quick(scene)
    scene.incident.ended_s = scene.now_s()


async def _until_quick(scene: Scene) -> float:
    """How long it takes until a lone request is quick again; NEVER if it never is."""
    limit_s, began_s = quick_s(scene.incident.idle_answer_s), time.monotonic()
    while time.monotonic() - began_s < NEVER_S:
        sent_s = time.monotonic()
        if not await scene.crowd.ask(scene.incident.requests, scene.began_s, patience_s=NEVER_S):
            if time.monotonic() - sent_s <= limit_s:
                return sent_s - began_s
        else:
            await asyncio.sleep(0.02)  # between two refusals
    return NEVER


async def endless(scene: Scene) -> None:
    """One task that never ends, and then one for each worker, or for each user if there are fewer."""
    seen, workers = scene.incident.seen, min(USERS, scene.incident.workers or usable_cpus())
    async with scene.under_load():
        scene.fault_now()
        before = scene.rate_before()
        for name, count in (("one", 1), ("all", workers - 1)):
            if not count:  # the one was all of them
                seen |= {f"all_{what}": seen[f"one_{what}"] for what in ("left", "from_s", "to_s")}
                break
            for number in range(count):
                scene.let_be_endless(f"{name}{number}")
            await until(lambda: not scene.endless_to_begin(), 1.0)
            from_s = scene.now_s()
            await asyncio.sleep(AFTER_S)
            to_s = scene.now_s()
            seen[f"{name}_left"] = scene.rate(from_s, to_s) / before if before else 0.0
            seen[f"{name}_from_s"], seen[f"{name}_to_s"] = from_s, to_s
    seen["before_per_s"] = before


async def slow(scene: Scene) -> None:
    """Connections that send half a request and stay."""
    host, port = scene.address
    async with scene.under_load():
        scene.fault_now()
        before = scene.rate_before()
        async with half_requests(host, port, SLOW_ONES):
            from_s = scene.now_s()
            await asyncio.sleep(AFTER_S)
            scene.incident.seen["left"] = scene.rate(from_s, scene.now_s()) / before if before else 0.0
            scene.incident.seen["from_s"] = from_s


async def malformed(scene: Scene) -> None:
    """Requests that are no HTTP, or that two parsers read differently."""
    scene.let_tasks_take(MALFORMED_CPU_S)
    host, port = scene.address
    lines = scene.server.lines_said()
    scene.began_s = time.monotonic()
    scene.fault_now()
    sent, smuggled = await send_malformed(host, port, MALFORMED, scene.incident.round)
    seen, outcome = scene.incident.seen, await scene.crowd.ask(scene.incident.requests, scene.began_s)
    alive = scene.server.alive() and not outcome
    seen["sent"], seen["smuggled"], seen["alive"] = sent, smuggled, float(alive)
    seen["lines"] = scene.server.lines_said() - lines
    scene.incident.ended_s = scene.now_s()
