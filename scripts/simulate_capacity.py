#!/usr/bin/env python3
"""Measure how accurate `bench.py capacity` is: run the real search against simulated servers of known capacity.

    .venv/bin/python scripts/simulate_capacity.py --runs 10

The script prints one line for each server: its true capacity, the median error of the estimate, the share of searches
whose estimate is within 15 % of the truth, the share whose 95 % interval contains the truth, the median ratio of the
upper to the lower bound, and the longest search. 40 searches for each of the nine servers take 10 to 30 minutes.
"""

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from simulated_capacity import SERVERS, capacity_by_arithmetic, searched
from simulated_cpus import Machine

CLOSE = 0.15  # maximum relative error of an estimate that counts as close
TRUTH_MACHINES = 30  # with --noisy: number of simulated machines that determine the true capacity


def main() -> None:
    """Print one line for each server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--runs", type=int, default=40, metavar="N", help="number of searches for each server (default: 40)"
    )
    parser.add_argument(
        "--budget", type=float, default=60.0, metavar="SECONDS", help="simulated length of each search (default: 60)"
    )
    parser.add_argument("--goal", default="p99 < 1s", choices=["p99 < 1s", "p99 < 0.5s"], help="default: p99 < 1s")
    parser.add_argument("--noisy", action="store_true", help="simulate a machine whose speed changes")
    parser.add_argument(
        "--servers", nargs="+", metavar="NAME", choices=SERVERS, default=list(SERVERS), help=", ".join(SERVERS)
    )
    options = parser.parse_args()
    print("server       truth  median error  within 15 %  covered  upper/lower  longest")
    for name in options.servers:
        _study(name, options)


def _study(name: str, options: argparse.Namespace) -> None:
    server, limit_s = SERVERS[name], float(options.goal.removeprefix("p99 < ").removesuffix("s"))
    is_moving = options.noisy and server.computes
    machines = [Machine(1000 + number, noisy=True) for number in range(TRUTH_MACHINES)] if is_moving else None
    steady = server if is_moving else replace(server, computes=False)
    truth = capacity_by_arithmetic(steady, limit_s, machines=machines)
    rows = []
    for seed in range(options.runs):
        capacity, result, machine = searched(
            server, seed, budget_s=options.budget, goals=(options.goal, "ping p99 < 50ms"), noisy=options.noisy
        )
        true_rate = truth * (machine.mean_speed(server.workers) if is_moving else 1.0)
        low, high = capacity.lower_per_s or 0.0, capacity.upper_per_s or math.inf
        estimate = capacity.per_s or math.sqrt(max(low, 1e-3) * min(high, 1e3))
        lasted_s = sum(step.record.case_s or 0.0 for step in result.steps)
        ratio = high / low if low else math.inf
        rows.append((abs(estimate / true_rate - 1), low <= true_rate <= high, ratio, lasted_s))
    errors, covered, ratios, lasted = np.array(rows).T
    print(
        f"{name:<11} {truth:6.1f} {np.median(errors):13.1%} {np.mean(errors <= CLOSE):12.0%} {np.mean(covered):8.0%} "
        f"{np.median(ratios):12.2f} {np.max(lasted):7.0f}s",
        flush=True,
    )


if __name__ == "__main__":
    main()
