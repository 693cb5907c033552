"""Sort the tests, and distribute them among the processes of pytest-xdist."""

import functools
import re
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

SIMULATIONS = ("test_best_value_markers.py", "test_revisions.py", "test_noise_study.py", "test_capacity.py")
REAL = ("live", "extended")  # folders with tests of real processes
CACHING = "test_noise_study.py"  # its tests use the same simulations
STRATEGY = re.compile(r"[\[-](\d+_[a-z_]+)[-\]]")


class OrderedScheduling(LoadScopeScheduling):
    """Run each test of real processes wherever a process is free, and keep the tests of other files together.

    Tests that share a fixture stay together, as do the contract tests of a strategy.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        if file.endswith("test_server_contract.py"):
            strategy = STRATEGY.search(test)
            return strategy[1] if strategy else nodeid
        is_apart = Path(file).parent.name in REAL or file.endswith(SIMULATIONS)
        return nodeid if is_apart and not _shares(self.config.rootpath / file) else file


@functools.cache
def _shares(path: Path) -> bool:
    """Return whether the tests of a file share expensive values."""
    return path.name == CACHING or 'scope="module"' in path.read_text(encoding="utf-8")


def ordered(items: list[pytest.Item], *, several_processes: bool) -> list[pytest.Item]:
    """Sort the tests: simulations, then tests that share a fixture, then tests of real processes, then all others."""
    return sorted(items, key=_position) if several_processes else items


def _position(item: pytest.Item) -> int:
    if item.path.name in SIMULATIONS:
        return 0
    if item.path.parent.name not in REAL:
        return 3
    return 1 if _shares(item.path) else 2
