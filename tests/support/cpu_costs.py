"""Pytest plugin that prints the test modules that use the most CPU time, with the processes that they start.

If the environment variable UNDER_SIEGE_CPU_COSTS names a file, the plugin appends the costs to it instead, and `python
tests/support/cpu_costs.py` prints the sum of several calls of pytest.
"""

import os
import resource
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

SHOWN = 10  # modules
COST = "cpu_s"  # the property that carries a test's CPU seconds from a process of pytest-xdist to the controller
FILE = "UNDER_SIEGE_CPU_COSTS"
STARTED = pytest.StashKey[float]()


def used_cpu_s() -> float:
    """Return the CPU seconds of this process and of all processes that it or its children waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.stash[STARTED] = used_cpu_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    if call.when == "teardown":
        item.user_properties.append((COST, used_cpu_s() - item.stash[STARTED]))
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the most expensive modules, or append the cost of each test to the file that FILE names."""
    costs = [
        (report.nodeid.partition("::")[0], value)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == COST
    ]
    if FILE in os.environ:
        with Path(os.environ[FILE]).open("a") as file:
            file.writelines(f"{module} {cpu_s}\n" for module, cpu_s in costs)
    else:
        for line in described(costs):
            terminalreporter.write_line(line)


def described(costs: Iterable[tuple[str, float]]) -> Iterator[str]:
    """Yield the lines that describe the costs of the most expensive modules."""
    sums: Counter[str] = Counter()
    for module, cpu_s in costs:
        sums[module] += cpu_s  # type: ignore[assignment]
    if sums:
        yield f"The tests used {sums.total():.0f} CPU seconds. The most expensive modules:"
    for module, cpu_s in sums.most_common(SHOWN):
        yield f"{cpu_s:7.1f} s  {module}"


if __name__ == "__main__":
    rows = (line.split() for line in Path(os.environ[FILE]).read_text().splitlines())
    print("\n".join(described((module, float(cpu_s)) for module, cpu_s in rows)))
