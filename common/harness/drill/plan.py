"""The plan of a drill: each server with a task whose length can be set while it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from common.harness.drill.conduct import chains, with_parts
from common.harness.drill.scene import USERS, computing
from common.harness.drill.stage import STEADY_CPU_S
from common.harness.plan import Plan, make_plan
from common.harness.ready.load_keys import DRILL, refuse_unsupported
from common.harness.ready.strategies import by_hand
from common.model.case import Value
from common.model.suite import Suite


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
