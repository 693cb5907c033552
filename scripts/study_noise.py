#!/usr/bin/env python3
"""Count on simulated machines whose truth is known how often the report is right.

honest  eleven servers in two rounds: coverage of intervals, half-widths, verdicts, equal servers told apart, and how
        often servers that are 10 % and 20 % slower are found
liars   six dishonest servers beside honest ones: their verdicts
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from noise_study import BESIDE_LIARS, HONEST, LIARS, studied


def main() -> None:
    """Print the counts for each kind of machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--kind", choices=["quiet", "noisy", "drifting"], default="noisy")
    parser.add_argument("--rounds", type=lambda text: None if text == "auto" else int(text), default=2)
    words = parser.parse_args()
    found = studied(range(words.runs), words.kind, HONEST, words.rounds)
    rounds = f"{words.rounds} rounds" if words.rounds else f"{np.median(found.seconds):.0f} s (median)"
    print(f"honest servers, {words.kind} machine, {found.runs} runs of {rounds}")
    print(f"  coverage of ratios          {np.mean(found.covered):.1%}")
    print(f"  half-width, median          {np.median(found.half_widths):.1%}")
    print(f"  verdicts                    {dict(found.verdicts)}")
    print(f"  runs that decide nothing    {found.undecided_runs / found.runs:.1%}")
    print(f"  equal servers told apart    {found.told_apart / found.runs:.1%}")
    for name, count in sorted(found.found.items()):
        print(f"  found: {name.replace('_', ' '):20} {count / found.runs:.1%}")
    found = studied(range(words.runs), words.kind, (*BESIDE_LIARS, *LIARS), words.rounds)
    print(f"dishonest servers, {words.kind} machine, {found.runs} runs")
    for name, verdicts in found.of_liars.items():
        print(f"  {name.replace('_', ' '):28} {dict(verdicts)}")
    print(f"  honest servers beside them   {dict(found.verdicts)}")


if __name__ == "__main__":
    main()
