"""Choose the number of users by the duration of the task, so that nobody waits long if a server queues requests."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from under_siege import formatting
from under_siege.measure.plan import Plan
from under_siege.measure.run_time import undisturbed
from under_siege.paths import USERS
from under_siege.record.case import PACES, REVISION, Case, Value, case_of
from under_siege.suite.expected_response import Expectations
from under_siege.suite.suite import Suite

LADDER = (USERS, 10, 5, 2)
MOST_WAIT_S = 5.0  # how long users may wait for each other if a server performs one task at a time
PUBLISHED_TASK = "primes"  # the published benchmark runs it with USERS


def is_open(suite: Suite, plan: Plan, given: Mapping[str, Sequence[Value]]) -> bool:
    """Return whether the duration of the task may decide the number of users: neither the user nor a suite file did.

    Users who pause, streams and jobs keep the default, because they rarely wait for each other.
    """
    is_known = bool(given.get("users")) or plan.searched or plan.load.stream or plan.load.posts_jobs
    is_paced = any(case.get(name) for case in plan.cases for name in PACES)
    tasks = {case.task for case in plan.cases}
    chooses = suite.application is not None or (not suite.title and tasks != {PUBLISHED_TASK})
    return chooses and not is_known and not is_paced


def with_fitting_users(plan: Plan, expectations: Expectations) -> Plan:
    """Return the plan with the highest number of users of the ladder with which nobody waits too long.

    If two revisions are compared, the duration of the base decides.
    """
    base = next(iter(plan.suite.revisions), None)
    deciding = [case for case in plan.cases if base is None or case.get(REVISION) == base]
    expected = [undisturbed(plan.expected_of(case, expectations)) for case in deciding]
    longest_s = max(max(each.task_s, each.cpu_s) for each in expected)
    users = next((count for count in LADDER if count * longest_s <= MOST_WAIT_S), LADDER[-1])
    if users == USERS:
        return plan
    reason = (
        f"{users}, because the task alone takes {formatting.seconds(longest_s)}: on a server that performs one task at "
        f"a time, {USERS} would wait {formatting.seconds(USERS * longest_s)}; --users sets another number"
    )
    change = partial(_with_users, users=users)
    return replace(
        plan,
        cases=tuple(map(change, plan.cases)),
        ceilings=tuple(map(change, plan.ceilings)),
        unprepared={change(case): why for case, why in plan.unprepared.items()},
        users_choice=reason,
    )


def _with_users(case: Case, users: int) -> Case:
    return case_of(case.server, {**dict(case.values), "users": users})
