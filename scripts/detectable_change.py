#!/usr/bin/env python3
"""Measure how small a change this machine shows: compare a commit with itself, and print a table by rounds.

    .venv/bin/python scripts/detectable_change.py --out results/ci/detectable.json suites/first:uvicorn

The arguments after the options go to `bench.py run`, in the current directory, which must be in a git repository. Each
of the RUNS measures MOST rounds; a result of fewer rounds consists of the first of these. For one server, eight runs of
16 rounds take half an hour.

The table shows the median over the runs of the detectable change, and its range. The last columns count the runs that
were undecided, and those that reported a significant change although nothing had changed: one in twenty may do that.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec
from measured_table import Cell, MeasuredTable, show

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.workers import usable_cpus
from under_siege import formatting
from under_siege.compare.diff import BETTER, UNDECIDED, WORSE, ResultComparison, compare_revisions
from under_siege.judge.verdict_rules import FAILED
from under_siege.record.result import Result, load

BENCH = Path(__file__).resolve().parents[1] / "bench.py"
ROUNDS = (2, 4, 8, 16)
COLUMNS = {"rate_per_s": "throughput", "ping_p99_s": "ping p99", "cpu_s_per_transaction": "CPU time"}


def first_rounds(result: Result, rounds: int) -> Result:
    """Return a result of the first rounds."""
    records = [record for record in result.records if record.round <= rounds]
    return msgspec.structs.replace(result, records=records, rounds=rounds)


def detectable(comparison: ResultComparison, figure: str) -> list[float]:
    """Return the detectable change of a metric for each case in which it is known."""
    changes = (change for case in comparison.cases for change in case.changes if change.figure == figure)
    return [change.smallest_visible for change in changes if change.smallest_visible is not None]


def rows_of(results: Sequence[Result], most: int) -> dict[str, dict[str, Cell]]:
    """Return a row for each number of rounds up to `most`."""
    return {
        f"{rounds} rounds": _row([compare_revisions(first_rounds(result, rounds)) for result in results])
        for rounds in ROUNDS
        if rounds <= most
    }


def _row(comparisons: Sequence[ResultComparison]) -> dict[str, Cell]:
    cells = {}
    for figure, name in COLUMNS.items():
        sizes = [size for comparison in comparisons for size in detectable(comparison, figure)]
        text = f"{_percent(median(sizes))} ({_range(min(sizes), max(sizes))})" if sizes else "unknown"
        cells[name] = Cell(median(sizes) if sizes else 0.0, text)
    for name, judgements in {"undecided": (UNDECIDED, FAILED), "false alarms": (WORSE, BETTER)}.items():
        count = sum(any(case.judgement in judgements for case in each.cases) for each in comparisons)
        cells[name] = Cell(count, f"{count} of {len(comparisons)}")
    return cells


def _range(low: float, high: float) -> str:
    lowest, highest = _percent(low), _percent(high)
    return re.sub(r"^(\d+) % to (\d+ %)$", r"\1 to \2", f"{lowest} to {highest}")


def _percent(share: float) -> str:
    return formatting.share(share) if share <= 1 else f"x {formatting.significant(1 + share, 2)}"


def main() -> None:
    """Compare HEAD with itself in several runs, print the table, and save it if `--out` is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8, metavar="RUNS", help="default: 8")
    parser.add_argument("--most", type=int, default=ROUNDS[-1], metavar="MOST", help=f"default: {ROUNDS[-1]}")
    parser.add_argument("--out", type=Path, metavar="FILE", help="save the table for measured_table.py")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS", help="for bench.py run")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, options.runs + 1):
            print(f"run {number} of {options.runs}", file=sys.stderr)
            file = Path(folder, f"{number}.json")
            fixed = ["--against", "HEAD", "--rounds", str(options.most), "--quiet", "--out", str(file)]
            ended = subprocess.run(
                [sys.executable, str(BENCH), "run", *options.arguments, *fixed], stdout=subprocess.DEVNULL, check=False
            )
            if ended.returncode not in (0, 1, 3):
                sys.exit(ended.returncode)
            results.append(load(file))
    command = shlex.join(["scripts/detectable_change.py", *options.arguments])
    conditions = f"{options.runs} runs · {usable_cpus()} cores · median over the runs (lowest to highest)"
    measured = MeasuredTable(command, conditions, rows_of(results, options.most))
    show(measured)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        measured.save(options.out)


if __name__ == "__main__":
    main()
