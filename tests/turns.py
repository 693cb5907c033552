"""Which tests run one after the other in the same process, where several processes run tests."""

import re

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
    "test_survival.py",
    "test_virtualenv.py",
    "test_output.py",
    "test_celery.py",
    "test_ceiling.py",
    "test_sigkill.py",
    "test_trace.py",
    "test_try.py",
    "test_bench.py",
    "test_tools.py",
)
# A process goes on with a file that it has begun, so those that take long begin first: between those that compute much
# are some that wait most of the time.
LONG = (
    "test_waiting_servers.py",
    "test_page.py",
    "test_capacity.py",
    "test_weather.py",
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


def place(file: str) -> int:
    """Where the tests of a file stand in the line."""
    return LONG.index(file) if file in LONG else len(LONG)
