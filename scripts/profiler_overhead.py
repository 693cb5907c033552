#!/usr/bin/env python3
"""Measure how much throughput a server loses while it is profiled, in interleaved rounds on an otherwise idle machine.

    .venv/bin/python scripts/profiler_overhead.py 2 4

It compares each server with the same server under py-spy. Each round takes about 15 seconds per server.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent


def compare(number: str, rounds: int) -> None:
    """Compare a server with itself under the profiler."""
    script = next((ROOT / "servers").glob(f"{number}_*.py"))
    plain = f"{sys.executable} {script} --host {{host}} --port {{port}}"
    commands = {"not-profiled": plain, "profiled": f"{sys.executable} {ROOT}/scripts/profiled_server.py {plain}"}
    with TemporaryDirectory() as folder:
        suite = Path(folder) / "suite.toml"
        tables = [f"[servers.{name}]\ncommand = {json.dumps(command)}\n" for name, command in commands.items()]
        suite.write_text("\n".join([f'title = "{script.stem}"\n[load]\nusers = 25\n[ping]\npath = "/ping"\n', *tables]))
        options = ["--time", "6s", "--rounds", str(rounds), "--wide", "--out", f"{folder}/result.json"]
        subprocess.run([sys.executable, ROOT / "bench.py", "run", suite, *options], check=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="*", default=["2", "4"], help="numbers of servers (default: 2 4)")
    parser.add_argument("--rounds", type=int, default=12, help="rounds per server (default: 12)")
    arguments = parser.parse_args()
    for each in arguments.servers:
        compare(each, arguments.rounds)
