"""Sort the tests, and distribute them among the processes of pytest-xdist."""

import re

import pytest
from xdist.scheduler import LoadScopeScheduling

# Files of long tests without shared fixtures, whose tests may run in different processes; the longest files come first.
APART = (
    "test_steady_rate.py",
    "test_aiohttp_suite.py",
    "test_stop_signals.py",
    "test_webdav_suite.py",
    "test_undetected_by_load_tools.py",
    "test_exercises.py",
    "test_ci.py",
    "test_traceback.py",
    "test_drill.py",
    "test_published_faults.py",
    "test_name_collisions.py",
    "test_task_arguments.py",
    "test_virtual_environments.py",
    "test_output_files.py",
    "test_celery.py",
    "test_ceiling.py",
    "test_supervisor.py",
    "test_trace.py",
    "test_try_command.py",
    "test_bench.py",
    "test_load_tools.py",
    "test_overload_and_shutdown.py",
)
WAITING = "test_overload_and_shutdown.py"  # I/O-bound tests, which would leave all CPUs idle if they ran together
# A process runs all tests of a file, so the longest files start first. CPU-bound and I/O-bound files alternate.
LONG = (
    "test_slow_servers.py",
    "test_result_page.py",
    "test_capacity.py",
    "test_server_contract.py",
    "test_faulty_servers.py",
    "test_failed_ceiling.py",
    "test_suite_servers.py",
    "test_job_endpoints.py",
    "test_crashing_servers.py",
    "test_estimates.py",
    "test_endless_responses.py",
    "test_dishonest_servers.py",
    "test_dask.py",
    "test_run.py",
    "test_traces_of_real_servers.py",
    *APART,
)
STRATEGY = re.compile(r"[\[-](\d+_[a-z_]+)[-\]]")


class OrderedScheduling(LoadScopeScheduling):
    """Keep the tests of each file in one process, because they may share fixtures.

    Files in `APART` are split into individual tests; contract tests are grouped by strategy.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        if file.endswith("test_server_contract.py"):
            strategy = STRATEGY.search(test)
            return strategy[1] if strategy else nodeid
        return nodeid if file.endswith(APART) else file


def ordered(items: list[pytest.Item], *, several_processes: bool) -> list[pytest.Item]:
    """Sort tests by the duration of their files, longest first.

    If there are several processes, spread the tests of WAITING over the first 80 % of the others.
    """
    items = sorted(items, key=_position)
    if not several_processes:
        return items
    waiting, others = ([item for item in items if (item.path.name == WAITING) is waits] for waits in (True, False))
    behind = [int(0.8 * len(others) * position / len(waiting)) for position in range(len(waiting))]
    for position, item in reversed(list(zip(behind, waiting, strict=True))):
        others.insert(position, item)
    return others


def _position(item: pytest.Item) -> int:
    return LONG.index(item.path.name) if item.path.name in LONG else len(LONG)
