"""Pytest plugin that collects failed tests of real servers and loads, so that run_tests.sh can rerun them.

Other tests and noisy neighbours affect what a siege of one second finds. With `--again=FILE`, which run_tests.sh
passes, the failure of a test in one of the FOLDERS does not count. The plugin prints the failure and adds the test's
name to the file. At the end, run_tests.sh reruns the tests in the file one at a time, and their failures count.
Teardown errors, such as leftover processes, always count.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

AGAIN = "again"  # a test outcome, like "passed" and "failed"
FOLDERS = {"integration", "measuring"}


class Again:
    """List the tests to rerun in a file. With pytest-xdist, only the controller process uses this class."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == AGAIN:
            with self._file.open("a") as tests_to_rerun:
                tests_to_rerun.write(f"{report.nodeid}\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for report in terminalreporter.getreports(AGAIN):
            terminalreporter.write_sep("_", f"will be rerun alone: {report.nodeid}")
            terminalreporter.write_line(report.longreprtext)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    counts = call.when == "teardown" or not item.config.getoption("--again")
    if report.failed and not counts and item.path.parent.name in FOLDERS:
        report.outcome = AGAIN
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    return (AGAIN, "A", "AGAIN") if report.outcome == AGAIN else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--again", metavar="FILE", help="add failed tests of real servers to FILE instead of counting the failures"
    )


def pytest_configure(config: pytest.Config) -> None:
    if (file := config.getoption("--again")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Again(Path(file)))
