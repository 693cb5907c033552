#!/usr/bin/env python3
"""Run a server, and sample it with py-spy all the time, as bench.py profile does for some seconds.

    .venv/bin/python scripts/profiled_server.py python servers/2_async.py

scripts/profiler_overhead.py compares such a server with one that is not sampled.
"""

import itertools
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from under_siege.profiling.sampler import PASSES, record_command

PASS_S = 3  # duration of a pass, as in bench.py profile


def main(command: list[str]) -> None:
    """Run the command, and sample its processes in one pass after the other until SIGTERM."""
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


if __name__ == "__main__":
    main(sys.argv[1:])
