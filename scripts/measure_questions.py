#!/usr/bin/env python3
"""Repeat the measurements behind docs/questions/, for all questions or for those with the given numbers.

    .venv/bin/python scripts/measure_questions.py 3 7

Each answer.toml in suites/questions/ names the commands and the result files. All measurements together take about 40
minutes and need an otherwise idle machine. Afterwards, update the pages:

    .venv/bin/pytest --renew tests/unit/test_question_pages.py tests/unit/test_readme.py
"""

import argparse
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from compress_results import compress

ROOT = Path(__file__).resolve().parents[1]
SUITES = ROOT / "suites" / "questions"


def measure(suite: Path) -> list[str]:
    """Run the commands of a question, and return those that failed."""
    failed = []
    for measured in tomllib.loads((suite / "answer.toml").read_text())["measured"]:
        script, *arguments = shlex.split(measured["command"])
        program = [script] if script.endswith(".py") else ["bench.py", script]
        print(f"\n{suite.name}: {' '.join([*program, *arguments])}", flush=True)
        command = [sys.executable, *program, *arguments, "--out", measured["result"]]
        # Exit code 1: a server failed; 3: a server is suspect. Some suites include such servers on purpose.
        if subprocess.run(command, cwd=ROOT, check=False).returncode not in (0, 1, 3):
            failed.append(measured["command"])
        elif measured["result"].endswith(".gz"):
            compress(ROOT / measured["result"])
    return failed


def main() -> None:
    """Measure the questions, and print the commands that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", type=int, metavar="N", help="question numbers (default: all)")
    wanted = parser.parse_args().numbers
    suites = [path for path in sorted(SUITES.iterdir()) if not wanted or int(path.name.split("-")[0]) in wanted]
    failed = [command for suite in suites for command in measure(suite)]
    for command in failed:
        print(f"failed: {command}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
