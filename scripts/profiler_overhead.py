#!/usr/bin/env python3
"""Measure how much throughput a server loses while it is profiled, in interleaved rounds on an otherwise idle machine.

    .venv/bin/python scripts/profiler_overhead.py 2 4

It compares each server with the same server under py-spy. Each round takes about 15 seconds per server.
"""

import argparse
import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(ROOT := Path(__file__).resolve().parent.parent))
from under_siege.profiling.sampler import PASSES, record_command

PASS_S = 3  # duration of a pass, as in bench.py profile


def serve(command: list[str]) -> None:
    """Run a server, and sample it in one pass after the other until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    server = subprocess.Popen(command)
    try:
        with TemporaryDirectory() as folder:
            for options in itertools.cycle(PASSES.values()):
                profiler = record_command(server.pid, options, PASS_S, Path(folder) / "stacks")
                subprocess.run(profiler, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    finally:
        server.terminate()
        server.wait()


def compare(number: str, rounds: int) -> None:
    """Compare a server with itself under the profiler."""
    script = next((ROOT / "servers").glob(f"{number}_*.py"))
    plain = f"{sys.executable} {script} --host {{host}} --port {{port}}"
    commands = {"not-profiled": plain, "profiled": f"{sys.executable} {Path(__file__).resolve()} --serve {plain}"}
    with TemporaryDirectory() as folder:
        suite = Path(folder) / "suite.toml"
        tables = [f"[servers.{name}]\ncommand = {json.dumps(command)}\n" for name, command in commands.items()]
        suite.write_text("\n".join([f'title = "{script.stem}"\n[load]\nusers = 25\n[ping]\npath = "/ping"\n', *tables]))
        options = ["--time", "6s", "--rounds", str(rounds), "--wide", "--out", f"{folder}/result.json"]
        subprocess.run([sys.executable, ROOT / "bench.py", "run", suite, *options], check=False)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="*", default=["2", "4"], help="numbers of servers (default: 2 4)")
    parser.add_argument("--rounds", type=int, default=12, help="rounds per server (default: 12)")
    arguments = parser.parse_args()
    for each in arguments.servers:
        compare(each, arguments.rounds)
