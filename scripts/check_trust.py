#!/usr/bin/env python3
"""Counts how often the bench is right on this machine, in many runs: the more restless the machine, the more it tells.

honest  every strategy of servers/ in a round: none may be suspect or failed
liars   every server of tests/servers/liars/ in a short round: none may be ok
ties    the process pool under three names: all have to share a rank
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
LIARS = sorted(map(str, (ROOT / "tests" / "servers" / "liars").glob("*.py")))
Cases = list[dict[str, Any]]


def honest(_folder: Path) -> list[str]:
    """The words of a run."""
    return ["--rounds", "1"]


def liars(_folder: Path) -> list[str]:
    """The words of a run."""
    return [*LIARS, "--rounds", "1", "--time", "2s"]


def ties(folder: Path) -> list[str]:
    """The words of a run; the servers are made."""
    names = [str(folder / f"{name}.py") for name in ("1_one", "2_other", "3_third")]
    for name in names:
        shutil.copy(ROOT / "servers" / "4_async_processexecutor.py", name)
    return names


def none_is_accused(cases: Cases) -> bool:
    """Unclear is no accusation, and a flag of the probe says that this program was late."""
    codes = {reason["code"] for case in cases for reason in case["reasons"] if case["verdict"] in ("suspect", "failed")}
    unclear = {
        "busy_machine",
        "unsteady_machine",
        "unsteady_ceiling",
        "doubtful_ceiling",
        "no_ceiling",
        "blind",
        "too_short",
    }
    return codes <= unclear | {"late_probe"}


def none_is_ok(cases: Cases) -> bool:
    """Every one is suspect, failed, or at least unclear."""
    return all(case["verdict"] != "ok" for case in cases)


def all_share_a_rank(cases: Cases) -> bool:
    """Those that have one."""
    return len({case["rank"] for case in cases} - {None}) <= 1


CHECKS: dict[str, tuple[Callable[[Path], list[str]], Callable[[Cases], bool]]] = {
    "honest": (honest, none_is_accused),
    "liars": (liars, none_is_ok),
    "ties": (ties, all_share_a_rank),
}


def main() -> None:
    """Runs, and says after each run how it went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", choices=[*CHECKS, []], help="all of them, if none is named")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="a folder for the results")
    options = parser.parse_args()
    for check in options.checks or CHECKS:
        right = sum(_right(check, number, options.keep) for number in range(1, options.runs + 1))
        print(f"{check}: right in {right} of {options.runs} runs", flush=True)


def _right(check: str, number: int, keep: Path | None) -> bool:
    words, is_right = CHECKS[check]
    with tempfile.TemporaryDirectory() as temporary:
        out = (keep or Path(temporary)) / f"{check}-{number}.json"
        run = [sys.executable, str(ROOT / "bench.py"), "run", *words(Path(temporary)), "--quiet", "--out", str(out)]
        subprocess.run(run, capture_output=True, check=False)
        shown = subprocess.run(
            [sys.executable, str(ROOT / "bench.py"), "report", str(out), "--format", "json"],
            capture_output=True,
            check=True,
        )
    cases: Cases = json.loads(shown.stdout)["cases"]
    right = is_right(cases)
    verdicts = Counter(case["verdict"] for case in cases)
    codes = Counter(reason["code"] for case in cases for reason in case["reasons"])
    ranks = [case["rank"] for case in cases]
    print(f"{check} {number}: {'right' if right else 'WRONG'} {dict(verdicts)} {dict(codes)} ranks {ranks}", flush=True)
    return right


if __name__ == "__main__":
    main()
