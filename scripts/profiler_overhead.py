#!/usr/bin/env python3
"""Measure how much throughput a server loses while it is profiled: the same load with and without py-spy, in pairs.

    .venv/bin/python scripts/profiler_overhead.py 2 3

The order in each pair is random. It takes about two minutes per server.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from scipy.stats import t

sys.path.insert(0, str(ROOT := Path(__file__).resolve().parent.parent))
from under_siege.profiling.sampler import PASSES, record_command

SECONDS, USERS, PORT = 4, 25, 18765


def transactions_per_s(pid: int, options: list[str] | None, folder: str) -> tuple[float, float]:
    """Return the rate of a siege, and the CPUs that py-spy uses meanwhile with these options; None: without it."""
    profiler = None
    if options is not None:
        command = record_command(pid, options, SECONDS, Path(folder) / "stacks")
        profiler = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    siege = ["siege", "--benchmark", f"--concurrent={USERS}", f"--time={SECONDS}S", "--json-output"]
    output = subprocess.run([*siege, f"http://127.0.0.1:{PORT}/"], capture_output=True, text=True, check=True).stdout
    cpus = 0.0
    if profiler is not None:
        _, status, usage = os.wait4(profiler.pid, 0)
        profiler.returncode = os.waitstatus_to_exitcode(status)
        cpus = (usage.ru_utime + usage.ru_stime) / SECONDS
    totals = json.loads(output[output.index("{") :])
    return float(totals["transactions"]) / float(totals["elapsed_time"]), cpus


def main(server: str, pairs: int) -> None:
    """Print the loss of one server with its 95 % confidence interval."""
    script = next((ROOT / "servers").glob(f"{server}_*.py"))
    process = subprocess.Popen([sys.executable, script, "--port", str(PORT)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it listens
    logs, cpus = [], []
    try:
        with TemporaryDirectory() as folder:
            transactions_per_s(process.pid, None, folder)  # warms it up
            for index in range(pairs):
                kinds = random.sample([None, list(PASSES.values())[index % len(PASSES)]], 2)
                measured = {kind is None: transactions_per_s(process.pid, kind, folder) for kind in kinds}
                logs.append(math.log(measured[False][0] / measured[True][0]))
                cpus.append(measured[False][1])
    finally:
        process.terminate()
        process.wait()
    mean = sum(logs) / pairs
    error = (sum((log - mean) ** 2 for log in logs) / (pairs - 1) / pairs) ** 0.5
    half = float(t.ppf(0.975, pairs - 1)) * error
    low, middle, high = (100 * math.expm1(value) for value in (mean - half, mean, mean + half))
    print(
        f"{script.stem}: {middle:+.1f} % while profiled (95 % CI {low:+.1f} to {high:+.1f}; {pairs} pairs); "
        f"py-spy uses {100 * sum(cpus) / pairs:.1f} % of a CPU"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="*", default=["2", "3", "4"], help="numbers of servers")
    parser.add_argument("--pairs", type=int, default=12)
    options = parser.parse_args()
    for each in options.servers:
        main(each, options.pairs)
