"""Compare concurrency strategies for your long task. This is the same program as `under-siege`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # `python -I` omits this directory

try:
    from under_siege.cli import bench
except ModuleNotFoundError as error:
    problem = f"this Python ({sys.executable}) lacks the package {error.name}"
    sys.stderr.write(f"bench.py: {problem}; run ./scripts/setup, then .venv/bin/python bench.py\n")
    sys.exit(2)

if __name__ == "__main__":
    bench()
