#!/usr/bin/env python3
"""Measure how accurate `bench.py capacity` is: run the real search against simulated servers of known capacity.

    .venv/bin/python scripts/simulate_capacity.py --runs 10

The script prints one line for each server: its true capacity, the mean and the median absolute error of the estimates,
the share of estimates within 20 % of the truth, the share of 95 % intervals that contain the truth, the median and the
90th percentile of their half-widths, and the longest search. The truth is computed from queueing theory or a long
simulation. For CPU-bound servers, it is that at the mean CPU speed of the search.
"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from simulated_capacity import SERVERS, Server, capacity_of, searched

CLOSE = 0.2  # maximum relative error of an estimate that counts as close


def main() -> None:
    """Print one line for each server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--runs", type=int, default=40, metavar="N", help="number of searches for each server (default: 40)"
    )
    parser.add_argument(
        "--budget", type=float, default=60.0, metavar="SECONDS", help="simulated length of each search (default: 60)"
    )
    parser.add_argument("--limit", type=float, default=0.5, metavar="SECONDS", help="limit for the p99 (default: 0.5)")
    parser.add_argument("--noisy", action="store_true", help="simulate a machine whose speed changes")
    parser.add_argument(
        "--servers", nargs="+", metavar="NAME", choices=SERVERS, default=list(SERVERS), help=", ".join(SERVERS)
    )
    options = parser.parse_args()
    print("server       truth  mean error  median |error|  within 20 %  covered  half-width: median  p90  longest")
    for name in options.servers:
        _study(name, options)


def _study(name: str, options: argparse.Namespace) -> None:
    server, truth = SERVERS[name], capacity_of(name, options.limit)
    goals, rows = (f"p99 < {options.limit}s", "ping p99 < 50ms"), []
    for seed in range(options.runs):
        capacity, result, machine = searched(server, seed, budget_s=options.budget, goals=goals, noisy=options.noisy)
        is_slowed = options.noisy and isinstance(server, Server) and server.computes
        true_rate = truth * (machine.mean_speed(server.workers) if is_slowed else 1.0)
        low, high = capacity.lower_per_s or 0.0, capacity.upper_per_s or math.inf
        lasted_s = sum(step.record.case_s or 0.0 for step in result.steps)
        half_width = (high - low) / (high + low) if high < math.inf else math.inf
        rows.append(((capacity.per_s or 0.0) / true_rate - 1, low <= true_rate <= high, half_width, lasted_s))
    errors, covered, widths, lasted = np.array(rows).T
    print(
        f"{name:<11} {truth:6.1f} {np.mean(errors):11.1%} {np.median(np.abs(errors)):15.1%} "
        f"{np.mean(np.abs(errors) <= CLOSE):12.0%} {np.mean(covered):8.0%} {np.median(widths):19.1%} "
        f"{np.quantile(widths, 0.9, method='higher'):4.0%} {np.max(lasted):7.0f}s",
        flush=True,
    )


if __name__ == "__main__":
    main()
