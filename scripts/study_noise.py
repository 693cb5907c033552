#!/usr/bin/env python3
"""Count how often reports about simulated servers with known rates are correct.

    .venv/bin/python scripts/study_noise.py --kind quiet

First, the script simulates runs of eleven honest servers. It prints how often intervals contain the true ratio, their
half-widths, the verdicts, how often equal servers get different ranks, and how often servers that are 10 % or 20 %
slower are detected. Then it simulates six dishonest and five honest servers together, and prints their verdicts.
docs/noise.md quotes the results for --kind noisy and --kind quiet.

400 runs take about six minutes.

    .venv/bin/python scripts/study_noise.py --default-runs --runs 20

With --default-runs, it simulates default runs instead, with recorded and simulated speeds of noisy machines, on which
the ceiling is 10, 18 or 27 responses per second. It prints what they recommend, and how precise and how long they are.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from noise_study import BESIDE_LIARS, DISHONEST, HONEST, POOLS, raced, studied

CEILINGS_PER_S = (10, 18, 27)


def main() -> None:
    """Print the counts for the selected kind of machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400, metavar="N", help="number of simulated runs (default: 400)")
    parser.add_argument(
        "--kind",
        choices=["quiet", "noisy", "recorded", "drifting", "shifting"],
        default="noisy",
        help="simulated machine (default: noisy)",
    )
    parser.add_argument("--rounds", type=_rounds, default=2, metavar="N", help="a number or auto (default: 2)")
    parser.add_argument("--default-runs", action="store_true", help="simulate runs without options")
    options = parser.parse_args()
    if options.default_runs:
        study_default_runs(options.runs)
        return
    found = studied(range(options.runs), options.kind, HONEST, options.rounds)
    rounds = f"{options.rounds} rounds" if options.rounds else f"{np.median(found.seconds):.0f} s (median)"
    print(f"honest servers, {options.kind} machine, {found.runs} runs of {rounds}")
    print(f"  intervals with true value   {np.mean(found.covered):.1%}")
    print(f"  half-width, median          {np.median(found.half_widths):.1%}")
    print(f"  verdicts                    {dict(found.verdicts)}")
    print(f"  one and two CPUs, same rank {found.undecided_runs / found.runs:.1%}")
    print(f"  equal servers, unequal rank {found.told_apart / found.runs:.1%}")
    for name, count in sorted(found.found.items()):
        print(f"  found: {name.replace('_', ' '):20} {count / found.runs:.1%}")
    found = studied(range(options.runs), options.kind, (*BESIDE_LIARS, *DISHONEST), options.rounds)
    print(f"dishonest servers, {options.kind} machine, {found.runs} runs")
    for name, verdicts in found.of_dishonest.items():
        print(f"  {name.replace('_', ' '):28} {dict(verdicts)}")
    print(f"  honest servers, same run     {dict(found.verdicts)}")


def study_default_runs(runs: int) -> None:
    """Print a table row for each kind of machine and each ceiling."""
    print("machine   ceiling  recommends a pool  half-width: median, p95  wrong ranks  seconds: median, most")
    for kind in ("recorded", "noisy"):
        for ceiling_per_s in CEILINGS_PER_S:
            races = raced(range(runs), kind, ceiling_per_s)
            pools = sum(count for server, count in races.recommended.items() if server in POOLS)
            middle, wide = np.quantile(races.half_widths, [0.5, 0.95])
            print(
                f"{kind:9} {ceiling_per_s:5}/s {pools:9} of {runs:3} {middle:16.1%} {wide:7.1%} "
                f"{races.wrong_ranks:9} of {runs:3} {np.median(races.seconds):12.0f} {max(races.seconds):5.0f}",
                flush=True,
            )
            if others := {server: count for server, count in races.recommended.items() if server not in POOLS}:
                print(f"          other answers: {others}")


def _rounds(text: str) -> int | None:
    return None if text == "auto" else int(text)


if __name__ == "__main__":
    main()
