#!/usr/bin/env python3
"""Count how often the bench detects the flaws of published benchmarks on this machine.

    .venv/bin/python scripts/check_published.py wsgi static --runs 2

Each run measures the suites in the smallest form that shows their flaws or, with --quick, in their quick version. Some
suites contain a server twice. The bench must never report the two copies as different. If noise prevents this
comparison, the suite runs once more. With --keep, the results are saved, and runs whose results are already in the
folder are not repeated.

A run of all suites takes five to fifteen minutes; the first run also creates their environments.

Exit codes: 1 if a flaw was missed, identical servers were reported as different, or a suite did not run; otherwise 3
if a suite has identical servers that could not be compared in any run; otherwise 0.
"""

import argparse
import itertools
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from under_siege.judge.estimates import differ
from under_siege.judge.ranking import summarize
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import OK
from under_siege.record.result import Result, load
from under_siege.show.notes import notes

ROOT = Path(__file__).resolve().parents[1]
QUICK: dict[str, tuple[str, ...]] = {
    "long-task": ("suites/long-task", "--quick"),
    "wsgi": ("suites/wsgi", "--quick"),
    "static": ("suites/static", "--quick"),
    "static-ports": ("suites/static/ports.toml", "--quick"),
    "aiohttp": ("suites/aiohttp", "--quick"),
    "webdav": ("suites/webdav", "--quick"),
    "webdav-stressor": ("suites/webdav/stressor.toml", "--quick"),
}


def _only(suite: str, servers: str, *options: str) -> tuple[str, ...]:
    """Return the arguments with which `bench.py run` measures these servers of a suite."""
    return *(f"suites/{suite}:{server}" for server in servers.split()), "--quick", *options


# Identical servers are measured together with others, so fewer than 5 % of runs report them as different.
SMALL: dict[str, tuple[str, ...]] = {
    "long-task": _only("long-task", "not_awaited not_awaited_right_answer", "--rounds", "2", "--time", "4s"),
    "wsgi": _only("wsgi", "waitress waitress-again gunicorn-sync cheroot node-own", "--rounds", "2"),
    "static": _only("static", "whitenoise whitenoise-again compiled flask published", "--rounds", "2", "--time", "2s"),
    "static-ports": _only("static/ports.toml", "whitenoise", "--rounds", "1"),
    "aiohttp": ("suites/aiohttp/noise.toml", "--rounds", "2", "--time", "2s"),
    "webdav": _only("webdav", "cheroot stores_nothing", "--rounds", "1", "--users", "5", "--time", "3s"),
    "webdav-stressor": _only("webdav/stressor.toml", "cheroot", "--rounds", "1"),
}


FORMS = {"quick": QUICK, "small": SMALL}
# Exit codes, with the same meaning as those of bench.py.
RIGHT = 0
WRONG = 1
UNDECIDED = 3


class Findings:
    """The verdicts, notes and rates of one run."""

    def __init__(self, result: Result) -> None:
        self.result, self.comparison = result, summarize(result)

    def flagged(self, code: str, server: str, **values: object) -> bool:
        """Return whether the server has cases with these values, and all of them are flagged with this code."""
        cases = [case for case in self.comparison.cases if case.case.server == server and _has(case, values)]
        return bool(cases) and all(code in {reason.code for reason in case.reasons} for case in cases)

    def noted(self, server: str, text: str) -> bool:
        """Return whether a note about the server contains this text."""
        return any(about == server and text in note for about, note in notes(self.comparison))

    def served(self, server: str) -> bool:
        """Return whether a rate of correct responses was measured for every case of the server."""
        cases = [case for case in self.comparison.cases if case.case.server == server]
        return bool(cases) and all(case.rate_per_s is not None for case in cases)

    def compare_duplicates(self, identity: Callable[[Summary], object]) -> Iterator[bool | str]:
        """Yield for each pair of identical cases whether they are reported as different, or why they were not compared.

        Two cases are identical if `identity` returns the same value for both.
        """
        rates = zip(self.comparison.cases, self.comparison.measured["rate_per_s"], strict=True)
        cases = [(case, rate if case.verdict == OK and rate and rate.degrees else None) for case, rate in rates]
        for (first, rate), (second, other) in itertools.combinations(cases, 2):
            if first.case.load != second.case.load or identity(first) != identity(second):
                continue
            if rate and other:
                ranked = sum(rate is not None and case.case.load == first.case.load for case, rate in cases)
                yield differ(rate, other, ranked * (ranked - 1) // 2)
            else:
                yield ", ".join(dict.fromkeys(reason.code for case in (first, second) for reason in case.reasons))


def _has(summary: Summary, values: dict[str, object]) -> bool:
    return all(str(summary.case.get(name)) == str(value) for name, value in values.items())


@dataclass(frozen=True)
class Fault:
    """A flaw that the author of a published benchmark missed, and the rule that detects this flaw."""

    name: str
    rule: str
    is_in: Callable[[Findings], bool]


def _flag(name: str, rule: str, code: str, server: str, **values: object) -> Fault:
    return Fault(name, rule, lambda findings: findings.flagged(code, server, **values))


FAULTS: dict[str, tuple[Fault, ...]] = {
    "long-task": (
        _flag("not awaited, empty body", "wrong response", "wrong_answer", "not_awaited"),
        _flag("not awaited, correct body", "above the ceiling", "above_ceiling", "not_awaited_right_answer"),
        _flag("not awaited, correct body", "faster than the task alone", "too_fast", "not_awaited_right_answer"),
    ),
    "wsgi": (
        _flag("929 bytes instead of 973", "wrong response", "wrong_answer", "node-own"),
        Fault(
            "keep-alive ignored", "note on connections", lambda findings: findings.noted("gunicorn-sync", "closed each")
        ),
    ),
    "static": (
        _flag("WhiteNoise did not answer", "wrong response", "wrong_answer", "published"),
        Fault("the compiled server answered", "header of each response", lambda findings: findings.served("compiled")),
    ),
    "static-ports": (_flag("only 16,384 ports (here 2,000)", "out of ports", "ports", "whitenoise"),),
    "aiohttp": (),
    "webdav": (
        _flag("cheroot 8.1.0 sleeps", "timer instead of work", "timer", "cheroot", cheroot="8.1.0", users=5),
        _flag("nothing is stored", "wrong response", "wrong_answer", "stores_nothing"),
    ),
    "webdav-stressor": (
        _flag("five servers seem equal", "load tool was the limit", "generator", "cheroot", cheroot="8.0.0"),
    ),
}


def _by_name(summary: Summary) -> object:
    """Return the identity of a case: for example, waitress and waitress-again with the same values are identical."""
    return summary.case.server.removesuffix("-again"), summary.case.values


def _by_version(summary: Summary) -> object:
    """Return the identity of a case: for example, versions 3.8.6 and 3.8.6.0 of the same server are identical."""
    values = {name: re.sub(r"(\.0)+$", "", str(value)) for name, value in summary.case.values}
    return summary.case.server, tuple(values.items())


IDENTITY: dict[str, Callable[[Summary], object]] = {"wsgi": _by_name, "static": _by_name, "aiohttp": _by_version}


class SuiteCount:
    """Count the findings of all runs of one suite."""

    def __init__(self, suite: str) -> None:
        self.suite = suite
        self.runs = list[Findings]()
        self.took_s = list[float]()
        self.problems = list[str]()

    def run(self, number: int, form: str, folder: Path) -> None:
        """Run the suite; run it again if it has identical servers, but no pair of them could be compared."""
        if self._once(f"{number}", form, folder) and not self._pairs(self.runs[-1:], bool) and self.suite in IDENTITY:
            self._once(f"{number}-again", form, folder)

    def _once(self, number: str, form: str, folder: Path) -> bool:
        out, began_s = folder / f"{self.suite}-{form}-{number}.json", time.monotonic()
        if not out.exists():
            options = [*FORMS[form][self.suite], "--quiet", "--out", str(out)]
            command = [sys.executable, "bench.py", "run", *options]
            completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            self.took_s.append(time.monotonic() - began_s)
            if completed.returncode not in (0, 1, 3) or not out.exists():  # the flaws cause exit codes 1 and 3
                last = [line for line in (completed.stderr + completed.stdout).splitlines() if line.strip()][-1:]
                self.problems.append(f"run {number} ended with exit code {completed.returncode}: {''.join(last)[:200]}")
                _print_progress(f"{self.suite} {self.problems[-1]}")
                return False
        findings = Findings(load(out))
        self.runs.append(findings)
        missed = [f"{fault.name} ({fault.rule})" for fault in FAULTS[self.suite] if not fault.is_in(findings)]
        verdicts = Counter(f"{case.case.server} {case.verdict}" for case in findings.comparison.cases)
        outcome = f"MISSED {missed}" if missed else "all flaws flagged"
        _print_progress(f"{self.suite} {number}: {outcome} {dict(verdicts)} in {time.monotonic() - began_s:.0f} s")
        return True

    def _pairs(self, runs: Sequence[Findings], kind: type[bool | str]) -> list[bool | str]:
        if self.suite not in IDENTITY:
            return []
        pairs = [pair for findings in runs for pair in findings.compare_duplicates(IDENTITY[self.suite])]
        return [pair for pair in pairs if isinstance(pair, kind)]

    def lines(self) -> Iterator[tuple[str, int]]:
        """Yield a line and its exit code for each flaw, for the identical servers, and for each problem."""
        runs = len(self.runs) + len(self.problems)
        for fault in FAULTS[self.suite]:
            times = sum(map(fault.is_in, self.runs))
            line = f"{self.suite:16}{fault.name:34}{fault.rule:30}flagged {times} of {runs}"
            yield line, RIGHT if 0 < runs == times else WRONG
        if self.suite in IDENTITY:
            compared, reasons = self._pairs(self.runs, bool), Counter(self._pairs(self.runs, str))
            outcome = f"reported as different {sum(map(bool, compared))} of {len(compared)}"
            outcome += "".join(f"; {times} not compared ({reason})" for reason, times in reasons.items())
            status = RIGHT if compared else UNDECIDED
            if any(compared):
                status = WRONG
            yield f"{self.suite:16}{'identical servers':34}{'difference in rates':30}{outcome}", status
        for problem in self.problems:
            yield f"{self.suite:16}{problem}", WRONG


def main() -> int:
    """Run the suites, report each run, and finally print how often each flaw was flagged."""
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _exit)
    counts = [SuiteCount(suite) for suite in options.suites or QUICK]
    form = "quick" if options.quick else "small"
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        began_s = time.monotonic()
        try:
            for run in range(1, options.runs + 1):
                for count in counts:
                    count.run(run, form, folder)
                _print_progress(f"run {run} of {options.runs} ended after {(time.monotonic() - began_s) / 60:.1f} min")
        finally:  # also if the script is interrupted
            lines = [line for count in counts for line in count.lines()]
            print("\n".join(line for line, _ in lines))
            for count in counts:
                if count.took_s:
                    print(f"{count.suite:16}each run took {min(count.took_s):.0f} to {max(count.took_s):.0f} s")
    statuses = {status for _, status in lines}
    return WRONG if WRONG in statuses else max(statuses)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(QUICK)} (default: all)")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="number of runs of each suite (default: 5)")
    parser.add_argument(
        "--quick", action="store_true", help="use the quick version of each suite, not the smallest form"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="save results here, and reuse existing results")
    options = parser.parse_args()
    if unknown := [name for name in options.suites if name not in QUICK]:
        parser.error(f"unknown suite {unknown[0]!r}; use one of {', '.join(QUICK)}")
    return options


def _exit(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
