"""What judges figures and fails is run once more, alone.

Other tests and other guests of the host take CPUs while figures are measured. So run_tests.sh passes `--again=FILE`:
a test with the mark `figures` or `measures` that fails then is told, with its reason, and noted in the file instead of
counted; those in the file are run at the end, one after the other. Who fails there has failed. What a test leaves
behind is no figure, and counts at once.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

AGAIN = "again"  # an outcome like "passed" and "failed"
MARKS = ("figures", "measures")


class Again:
    """Of the process that shows what was found, not of those that run tests for it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == AGAIN:
            with self._file.open("a") as noted:
                noted.write(f"{report.nodeid}\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for report in terminalreporter.getreports(AGAIN):
            terminalreporter.write_sep("_", f"is run once more, alone: {report.nodeid}")
            terminalreporter.write_line(report.longreprtext)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    counts = call.when == "teardown" or not item.config.getoption("--again")
    if report.failed and not counts and any(item.get_closest_marker(mark) for mark in MARKS):
        report.outcome = AGAIN
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    return (AGAIN, "A", "AGAIN") if report.outcome == AGAIN else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--again", metavar="FILE", help="note there what judges figures and fails, and do not count it")


def pytest_configure(config: pytest.Config) -> None:
    if (file := config.getoption("--again")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Again(Path(file)))
