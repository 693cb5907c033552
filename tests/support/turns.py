"""Which tests run one after the other in the same process, where several processes run tests."""

import re

import pytest
from xdist.scheduler import LoadScopeScheduling

# They share no fixture, and their tests take long; the longest files first.
APART = (
    "test_rate.py",
    "test_aiohttp_suite.py",
    "test_signals.py",
    "test_webdav_suite.py",
    "test_traps.py",
    "test_exercises.py",
    "test_ci.py",
    "test_traceback.py",
    "test_drill.py",
    "test_published.py",
    "test_namesakes.py",
    "test_task_arguments.py",
    "test_virtualenv.py",
    "test_output.py",
    "test_celery.py",
    "test_ceiling.py",
    "test_sigkill.py",
    "test_trace.py",
    "test_try.py",
    "test_bench.py",
    "test_tools.py",
    "test_survival.py",
)
WAITING = "test_survival.py"  # nearly all of the time: side by side they would leave all CPUs idle
# A process goes on with a file that it has begun, so those that take long begin first: between those that compute much
# are some that wait most of the time.
LONG = (
    "test_waiting_servers.py",
    "test_page.py",
    "test_capacity.py",
    "test_servers.py",
    "test_hostile_servers.py",
    "test_failed_ceiling.py",
    "test_anyone.py",
    "test_jobs.py",
    "test_dying_servers.py",
    "test_estimates.py",
    "test_greedy_servers.py",
    "test_liars.py",
    "test_dask.py",
    "test_run.py",
    "test_traced.py",
    *APART,
)
STRATEGY = re.compile(r"[\[-](\d+_[a-z_]+)[-\]]")


class Turns(LoadScopeScheduling):
    """Tests of a file stay together, as they may share a fixture; those of the contract as far as they are of one
    strategy, because they share its server."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        if file.endswith("test_servers.py"):
            strategy = STRATEGY.search(test)
            return strategy[1] if strategy else nodeid
        return nodeid if file.endswith(APART) else file


def in_line(items: list[pytest.Item], *, several_processes: bool) -> list[pytest.Item]:
    """The longest first; for several processes those that wait between the others, but none at the very end."""
    items = sorted(items, key=_place)
    if not several_processes:
        return items
    waiting, others = ([item for item in items if (item.path.name == WAITING) is waits] for waits in (True, False))
    behind = [int(0.8 * len(others) * place / len(waiting)) for place in range(len(waiting))]
    for place, item in reversed(list(zip(behind, waiting, strict=True))):
        others.insert(place, item)
    return others


def _place(item: pytest.Item) -> int:
    return LONG.index(item.path.name) if item.path.name in LONG else len(LONG)
