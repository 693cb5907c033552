"""The plan of a drill: each server with a task whose length can be set while it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from under_siege.faults.drill_run import chains, with_parts
from under_siege.faults.fault_context import USERS, computing
from under_siege.faults.server_fixture import STEADY_CPU_S
from under_siege.model.case import Value
from under_siege.model.suite import Suite
from under_siege.run.plan import Plan, make_plan
from under_siege.targets.selection import DRILL, refuse_unsupported
from under_siege.targets.strategies import by_hand


def drill_plan(
    suite: Suite, faults: Sequence[str], axes: Mapping[str, Sequence[Value]], *, rounds: int, seed: int | None
) -> tuple[Plan, int]:
    """The plan, and how many incidents it has; raises BadInputError as `make_plan` does."""
    names = with_parts(faults)
    refuse_unsupported(DRILL, suite)
    tasks = {"task": [computing(STEADY_CPU_S)]} if suite.has_task else {}
    targets = tuple(by_hand(target) for target in suite.targets)  # as they are when nobody compares them
    no_ceiling = replace(suite, targets=targets, ceiling=None, axes={**suite.axes, "users": (USERS,)})
    plan = make_plan(no_ceiling, {**axes, **tasks}, time_s=None, rounds=rounds, seed=seed)
    return plan, sum(map(len, chains(plan, names)))
