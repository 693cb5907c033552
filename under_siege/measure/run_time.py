"""Estimate how long a run takes, and announce it before the run."""

import math
from dataclasses import replace

from under_siege.host.cpu_division import server_cpus
from under_siege.measure.plan import Plan, ProgressListener
from under_siege.measure.siege_length import SHORTEST_SIEGE_S, least_needed_s, most_needed_s, pinged_s, screening_s
from under_siege.suite.expected_response import Expectation, Expectations

STARTING_AND_STOPPING_S = 1.5  # assumed time for the start, warm-up and stop of each case
LONG_WAIT_S = 40.0  # if all users' first responses take longer in total, a round may take minutes
CPU_BOUND_SHARE = 0.2  # minimum share of CPU time in a CPU-bound task, even on a busy machine


def round_length_s(
    plan: Plan, cpus: int, expectations: Expectations, *, is_screening: bool = False
) -> tuple[float, float]:
    """Return the lowest and the highest expected duration of a round, in seconds."""
    least_s = most_s = 0.0
    shortest_s = max(SHORTEST_SIEGE_S, pinged_s(plan.suite.ping))
    needed_s = screening_s if is_screening else most_needed_s
    for case in (*plan.ceilings, *plan.cases):
        expected = undisturbed(plan.expected_of(case, expectations))
        longest_s = max(shortest_s, needed_s(case.users, expected))
        least_needed = min(longest_s, max(shortest_s, least_needed_s(case.users, cpus, expected)))
        least_s += STARTING_AND_STOPPING_S + (plan.load.time_s or least_needed)
        most_s += STARTING_AND_STOPPING_S + (plan.load.time_s or longest_s)
    return least_s, most_s


def undisturbed(expected: Expectation) -> Expectation:
    """Return the CPU time of a CPU-bound task as its duration, because other programs may have delayed its trial."""
    is_cpu_bound = expected.cpu_s > CPU_BOUND_SHARE * expected.task_s
    return replace(expected, task_s=expected.cpu_s) if is_cpu_bound else expected


def in_words(least_s: float, most_s: float) -> str:
    """Format a range of durations as text, such as `about 2 min` or `2 to 7 min`."""
    least, most = (f"{limit_s:.0f} s" if limit_s < 100 else f"{limit_s / 60:.0f} min" for limit_s in (least_s, most_s))
    return f"about {most}" if most_s < 1.3 * least_s or most == least else f"{least} to {most}"


def say_how_long(
    plan: Plan, expectations: Expectations, watcher: ProgressListener, *, most_s: float = math.inf
) -> None:
    """Announce how long the run will take, and warn about tasks that take too long for the given time.

    Args:
        most_s: the time limit of a run whose number of rounds is not fixed.
    """
    _warn_of_long_tasks(plan, expectations, watcher)
    if plan.load.requests is not None:
        return
    is_screening = most_s < math.inf and plan.can_be_screened()
    shortest_s, longest_s = round_length_s(plan, server_cpus(), expectations, is_screening=is_screening)
    if most_s == math.inf:
        sieges = "1 siege takes" if plan.turns() == 1 else f"{plan.turns()} sieges take"
        watcher.say(f"{sieges} {in_words(plan.rounds * shortest_s, plan.rounds * longest_s)}")
    elif plan.searched:
        watcher.say(f"searching the best of {len(plan.cases)} settings, up to {most_s:.0f} s in total")
    else:
        cases = "1 case takes" if len(plan.cases) == 1 else f"{len(plan.cases)} cases take"
        if longest_s <= most_s:
            more = f"; cases that may be the best get more rounds, up to {most_s:.0f} s in total"
        else:
            users = f"{max(case.users for case in plan.cases):,} users"
            more = f" in the first round, because {users} may wait for each other; for less time, use fewer --users"
        watcher.say(f"{cases} {in_words(shortest_s, longest_s)}{more}")


def _warn_of_long_tasks(plan: Plan, expectations: Expectations, watcher: ProgressListener) -> None:
    """Warn about each job for which the given time is too short, or whose users wait long for their first response."""
    needed_s = {case: most_needed_s(case.users, expectations[case.work]) for case in plan.cases}
    slowest = {case.job: case for case in sorted(plan.cases, key=needed_s.__getitem__)}
    for case in slowest.values():
        what = case.task or plan.load_of(case).path
        task_s = expectations[case.work].task_s
        time_s = plan.load.time_s
        if time_s is not None and time_s < needed_s[case]:
            watcher.warn(
                f"--time {time_s:g}s is too short for {what} with {case.users} users: "
                f"use --time auto, or {math.ceil(needed_s[case])}s or more"
            )
        elif time_s is None and not plan.suite.has_task and task_s > 1 and case.users * task_s > LONG_WAIT_S:
            users = max(1, round(LONG_WAIT_S / task_s * server_cpus() / 2))
            watcher.warn(
                f"one response of {what} takes {task_s:.0f} s; if a server handles one request at a "
                f"time, {case.users} users wait {case.users * task_s:.0f} s: use --users {users}"
            )
