#!/usr/bin/env python3
"""Count how often the bench reaches the correct verdict on this machine, with real servers.

    .venv/bin/python scripts/check_trust.py dishonest --runs 3

honest      runs every strategy of servers/ for one round: none may be suspect or failed
dishonest   runs every server of tests/servers/dishonest/ for one short round: none may be ok
ties        runs the process pool under three names: all copies with a rank must have the same rank

A run of all three takes three to five minutes.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DISHONEST = sorted(map(str, (ROOT / "tests" / "servers" / "dishonest").glob("*.py")))
Cases = list[dict[str, Any]]


def honest(_folder: Path) -> list[str]:
    """Return the arguments with which `bench.py run` measures all strategies."""
    return ["--rounds", "1"]


def dishonest(_folder: Path) -> list[str]:
    """Return the arguments with which `bench.py run` measures all dishonest servers."""
    return [*DISHONEST, "--rounds", "1", "--time", "2s"]


def ties(folder: Path) -> list[str]:
    """Copy the process pool three times, and return the arguments with which `bench.py run` measures the copies."""
    copies = [str(folder / f"{name}.py") for name in ("1_one", "2_other", "3_third")]
    for copy in copies:
        shutil.copy(ROOT / "servers" / "4_async_processexecutor.py", copy)
    return copies


def none_is_accused(cases: Cases) -> bool:
    """Return whether every case is ok or unclear."""
    return all(case["verdict"] in ("ok", "unclear") for case in cases)


def none_is_ok(cases: Cases) -> bool:
    """Return whether every case is suspect, failed or unclear."""
    return all(case["verdict"] != "ok" for case in cases)


def ranks_are_equal(cases: Cases) -> bool:
    """Return whether all cases with a rank have the same rank."""
    return len({case["rank"] for case in cases} - {None}) <= 1


CHECKS: dict[str, tuple[Callable[[Path], list[str]], Callable[[Cases], bool]]] = {
    "honest": (honest, none_is_accused),
    "dishonest": (dishonest, none_is_ok),
    "ties": (ties, ranks_are_equal),
}


def main() -> None:
    """Run the checks, and print the outcome of each run and how many runs of each check were correct."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"{', '.join(CHECKS)} (default: all)")
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="number of runs of each check (default: 20)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="save the results here")
    options = parser.parse_args()
    if unknown := [name for name in options.checks if name not in CHECKS]:
        parser.error(f"unknown check {unknown[0]!r}; use one of {', '.join(CHECKS)}")
    for check in options.checks or CHECKS:
        right = sum(_is_right(check, run, options.keep) for run in range(1, options.runs + 1))
        print(f"{check}: correct in {right} of {options.runs} runs", flush=True)


def _is_right(check: str, run: int, keep: Path | None) -> bool:
    arguments, is_right = CHECKS[check]
    with tempfile.TemporaryDirectory() as temporary:
        out = (keep or Path(temporary)) / f"{check}-{run}.json"
        bench = [sys.executable, str(ROOT / "bench.py")]
        subprocess.run(
            [*bench, "run", *arguments(Path(temporary)), "--quiet", "--out", str(out)], capture_output=True, check=False
        )
        report = subprocess.run([*bench, "report", str(out), "--format", "json"], capture_output=True, check=True)
    cases: Cases = json.loads(report.stdout)["cases"]
    right = is_right(cases)
    verdicts = Counter(case["verdict"] for case in cases)
    reasons = Counter(reason["code"] for case in cases for reason in case["reasons"])
    ranks = [case["rank"] for case in cases]
    outcome = "correct" if right else "WRONG"
    print(f"{check} {run}: {outcome} {dict(verdicts)} {dict(reasons)} ranks {ranks}", flush=True)
    return right


if __name__ == "__main__":
    main()
