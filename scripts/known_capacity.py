#!/usr/bin/env python3
"""Measure real servers of known capacity with `bench.py capacity`, and print the truth beside the result.

    .venv/bin/python scripts/known_capacity.py one two random primes --runs 5 --beside

Three servers sleep for a known time, so their capacity follows from queueing theory. The fourth, `primes`, is
2_async.py with its CPU-bound task; its service time is the reciprocal of its rate in a closed loop, measured by
`bench.py run` before and after each search. With --beside, a process uses a CPU during all measurements. A search
takes about a minute.
"""

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from queue_theory import capacity, deterministic, exponential

ROOT = Path(__file__).resolve().parents[1]
GOAL = "p99 < 500ms"
LIMIT_S = 0.5
SERVICE_S = 0.05
SUITE = ROOT / "tests" / "suites" / "known_capacity" / "suite.toml"
TRUTHS = {
    "one": lambda: capacity(deterministic(1, SERVICE_S), 1 / SERVICE_S, LIMIT_S),
    "two": lambda: capacity(deterministic(2, SERVICE_S), 2 / SERVICE_S, LIMIT_S),
    "random": lambda: capacity(exponential(2, SERVICE_S), 2 / SERVICE_S, LIMIT_S),
}
LIMIT_OF_BENCH_S = 300.0


def main() -> None:
    """Print one line for each search."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="+", choices=[*TRUTHS, "primes"])
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="number of searches for each server")
    parser.add_argument("--beside", action="store_true", help="let another process use a CPU meanwhile")
    options = parser.parse_args()
    print("server    truth   sustained   lower   upper   error   half-width   covered   exit", flush=True)
    with _spinning() if options.beside else contextlib.nullcontext():
        for _ in range(options.runs):
            for name in options.servers:
                _search(name)


def _search(name: str) -> None:
    rates = [_closed_loop_rate()] if name == "primes" else []
    target = "2" if name == "primes" else f"{SUITE}:{name}"
    (case,), code = _bench("capacity", target, "--goal", GOAL)
    if name == "primes":
        rates.append(_closed_loop_rate())
        print(f"closed loop: {rates[0]:.2f}/s before and {rates[1]:.2f}/s after the search", flush=True)
        service_s = 2 / sum(rates)
        truth = capacity(deterministic(1, service_s), 1 / service_s, LIMIT_S)
    else:
        truth = TRUTHS[name]()
    low, high = case["capacity_per_s"]["holds"] or 0.0, case["capacity_per_s"]["fails"] or float("inf")
    estimate = case["estimate_per_s"] or 0.0
    print(
        f"{name:<8} {truth:6.2f} {estimate:11.2f} {low:7.2f} {high:7.2f} {estimate / truth - 1:7.1%} "
        f"{(high - low) / (high + low):12.1%} {'yes' if low <= truth <= high else 'no':>9} {code:6}",
        flush=True,
    )


def _closed_loop_rate() -> float:
    cases, _ = _bench("run", "2", "--time", "20s", "--rounds", "1")
    return float(next(case for case in cases if case["server"].startswith("2_"))["rate_per_s"]["mean"])


def _bench(*words: str) -> tuple[list[dict[str, Any]], int]:
    """Run the bench, and return the cases of its result and its exit code."""
    with TemporaryDirectory() as folder:
        out, bench = str(Path(folder, "result.json")), [sys.executable, str(ROOT / "bench.py")]
        ran = subprocess.run([*bench, *words, "--out", out, "--quiet"], capture_output=True, timeout=LIMIT_OF_BENCH_S)
        if not Path(out).exists():
            sys.exit(ran.stderr.decode())
        shown = subprocess.run([*bench, "report", out, "--format", "json"], capture_output=True)
        return json.loads(shown.stdout)["cases"], ran.returncode


@contextlib.contextmanager
def _spinning() -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


if __name__ == "__main__":
    main()
