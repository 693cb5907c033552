"""The number of users, if neither the user nor a suite file sets it."""

from dataclasses import replace
from pathlib import Path

import plans
import pytest

from under_siege.measure.plan import Plan
from under_siege.measure.user_ladder import is_open, with_fitting_users
from under_siege.record.case import REVISION, case_of
from under_siege.suite.expected_response import Expectation
from under_siege.suite.suite import UserApplication


def plan_of(task: str = "sign_up") -> Plan:
    return plans.plan_of("2", "4", task=task, users=25, time_s=None, rounds=2, seed=1)


def chosen(plan: Plan, task_s: float, cpu_s: float = 0.0) -> tuple[set[int], str]:
    """Return the users of all cases and ceilings, and the reason."""
    expected = {case.work: Expectation(b"4", task_s, cpu_s) for case in plan.cases}
    found = with_fitting_users(plan, expected)
    return {case.users for case in (*found.cases, *found.ceilings)}, found.users_choice


@pytest.mark.parametrize(("task_s", "users"), [(0.05, 25), (0.2, 25), (0.3, 10), (0.8, 5), (1.5, 2), (60.0, 2)])
def test_the_longer_the_task_the_fewer_users(task_s: float, users: int) -> None:
    assert chosen(plan_of(), task_s)[0] == {users}


def test_the_reason_for_fewer_users_is_given(golden) -> None:
    assert not chosen(plan_of(), 0.05)[1]
    golden(chosen(plan_of(), 0.3)[1])


def test_a_busy_machine_does_not_reduce_the_users_of_a_cpu_bound_task() -> None:
    assert chosen(plan_of(), task_s=0.3, cpu_s=0.1)[0] == {25}


def test_the_published_benchmark_a_given_number_and_pauses_keep_their_users() -> None:
    plan = plan_of()
    assert is_open(plan.suite, plan, {})
    assert not is_open(plan.suite, plan, {"users": (25,)})
    assert not is_open(plan.suite, plan_of("primes"), {})
    paced = replace(plan, cases=tuple(case_of(one.server, {**dict(one.values), "pause": "1s"}) for one in plan.cases))
    assert not is_open(plan.suite, paced, {})
    application = replace(plan.suite, title="shop", application=UserApplication("shop:app"))
    assert is_open(application, plan, {})
    assert not is_open(replace(application, application=None), plan, {})  # a suite file


def test_the_base_decides_the_users_of_both_revisions() -> None:
    plan = plan_of()
    by_revision = {
        name: [case_of(one.server, {**dict(one.values), REVISION: name}) for one in plan.cases] for name in ("a", "b")
    }
    suite = replace(plan.suite, revisions={"a": Path(), "b": Path()})
    both = replace(plan, suite=suite, cases=tuple(case for cases in by_revision.values() for case in cases))
    assert chosen(both, 0.3)[0] == {10}
