"""Sort the tests, and distribute them among the processes of pytest-xdist."""

import functools
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

REAL = ("live", "extended")  # folders with tests of real processes


class OrderedScheduling(LoadScopeScheduling):
    """Run each test of real processes wherever a process is free, and keep the tests of other files together.

    Tests that share a fixture stay together, as do the contract tests of a strategy.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        if file.endswith("test_server_contract.py"):
            return test.partition("[")[2] or nodeid
        is_apart = Path(file).parent.name in REAL and not _shares(self.config.rootpath / file)
        return nodeid if is_apart else file


@functools.cache
def _shares(path: Path) -> bool:
    """Return whether the tests of a file share a fixture."""
    return 'scope="module"' in path.read_text(encoding="utf-8")


def ordered(items: list[pytest.Item], *, several_processes: bool) -> list[pytest.Item]:
    """Sort the tests: those of real processes that share a fixture, the others of real processes, and unit tests."""
    return sorted(items, key=_position) if several_processes else items


def _position(item: pytest.Item) -> int:
    if item.path.parent.name not in REAL:
        return 2
    return 0 if _shares(item.path) else 1
