"""Pytest plugin that reruns failed tests of measured figures at the end, one at a time.

Other tests and noisy neighbours affect measured figures. With `--again=FILE`, as in run_tests.sh, a failed test with
the mark `figures` or `measures` does not count as a failure: its reason is printed and its name added to the file. At
the end, run_tests.sh runs the tests in the file one after the other, and their failures count. Errors in the teardown,
such as leftover processes, always count.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

AGAIN = "again"  # an outcome like "passed" and "failed"
MARKS = ("figures", "measures")


class Again:
    """Collect the tests to rerun, in the process that reports the results."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == AGAIN:
            with self._file.open("a") as tests_to_rerun:
                tests_to_rerun.write(f"{report.nodeid}\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for report in terminalreporter.getreports(AGAIN):
            terminalreporter.write_sep("_", f"to be rerun alone: {report.nodeid}")
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
    parser.addoption(
        "--again", metavar="FILE", help="write failed tests of measured figures to FILE instead of counting them"
    )


def pytest_configure(config: pytest.Config) -> None:
    if (file := config.getoption("--again")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Again(Path(file)))
