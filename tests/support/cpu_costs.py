"""Pytest plugin that prints the test modules that use the most CPU time, with the processes that they start."""

import resource
from collections import Counter
from collections.abc import Iterator

import pytest

SHOWN = 10  # modules
COST = "cpu_s"  # the property that carries a test's CPU seconds from a process of pytest-xdist to the controller
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
    costs: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            costs[getattr(report, "nodeid", "").partition("::")[0]] += dict(getattr(report, "user_properties", ())).get(
                COST, 0
            )
    if not costs.total():
        return
    terminalreporter.write_line(f"The tests used {costs.total():.0f} CPU seconds. The most expensive modules:")
    for module, cpu_s in costs.most_common(SHOWN):
        terminalreporter.write_line(f"{cpu_s:7.1f} s  {module}")
