"""Create plans for tests."""

import sys
from collections.abc import Sequence
from pathlib import Path

from fake_load import SilentWatcher
from simulated_record import result_of

from under_siege.host.services import Services
from under_siege.measure.plan import Plan, make_plan
from under_siege.measure.session import Keep, Session
from under_siege.suite.expected_response import Expectations
from under_siege.suite.selection import suite_of


def plan_of(
    *servers: Path | str,
    task: str = "primes",
    users: int = 2,
    workers: Sequence[int] = (),
    pythons: Sequence[str] = (sys.executable,),
    time_s: float | None = 1.0,
    rounds: int = 1,
    seed: int | None = None,
) -> Plan:
    axes = {"task": [task], "users": [users], "workers": workers, "python": pythons}
    return make_plan(suite_of([str(one) for one in servers]), axes, time_s=time_s, rounds=rounds, seed=seed)


def session_of(plan: Plan, keep: Keep, expectations: Expectations | None = None) -> Session:
    """Return a session with this plan, without services."""
    return Session(plan, expectations or {}, Services(), SilentWatcher(), result_of([]), keep)
