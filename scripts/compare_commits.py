#!/usr/bin/env python3
"""Whether the figures of a run are what they were at another commit: both are run in turn, round by round.

usage: .venv/bin/python scripts/compare_commits.py BASE [NEW] [--rounds N] [--out FOLDER] [-- OPTIONS OF bench.py run]

NEW is the commit that is checked out unless it is named. Each round runs both, the one that begins drawn by lot; what
they gave is kept as base.json and new.json in the folder, and compared as `bench.py compare` does; exit codes are its.
"""

import argparse
import contextlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.model.record import Result, load, save

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Runs, joins, compares."""
    options = _options()
    commits = {"base": options.base, "new": options.new}
    results: dict[str, list[Result]] = {name: [] for name in commits}
    with contextlib.ExitStack() as stack:
        trees = {name: stack.enter_context(_checked_out(commit)) for name, commit in commits.items()}
        for round_ in range(1, options.rounds + 1):
            for name in random.sample(list(trees), 2):
                print(f"round {round_} of {options.rounds}: {name}", file=sys.stderr)
                results[name].append(_run(trees[name], options.words, seed=round_))
    options.out.mkdir(parents=True, exist_ok=True)
    files = [options.out / f"{name}.json" for name in commits]
    for file, parts in zip(files, results.values(), strict=True):
        save(_joined(parts), file)
    command = [sys.executable, str(ROOT / "bench.py"), "compare", *map(str, files)]
    return subprocess.run(command, check=False).returncode


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("new", nargs="?", default="HEAD")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "commits")
    ours = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    options = parser.parse_args(ours)
    options.words = sys.argv[len(ours) + 2 :]
    return options


@contextlib.contextmanager
def _checked_out(commit: str) -> Iterator[Path]:
    """The files of that commit in a folder of their own, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="under-siege-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def _run(tree: Path, words: list[str], seed: int) -> Result:
    out = tree / "one.json"
    command = [sys.executable, "bench.py", "run", "--rounds", "1", "--seed", str(seed), "--quiet", "--out", str(out)]
    ran = subprocess.run([*command, *words], cwd=tree, stdout=subprocess.DEVNULL, check=False)
    if ran.returncode in (2, 130, 143):
        raise SystemExit(f"compare_commits: bench.py ended with exit code {ran.returncode} in {tree}")
    return load(out)


def _joined(parts: list[Result]) -> Result:
    """One result of as many rounds as there are parts."""
    whole = parts[0]
    for round_, part in enumerate(parts, 1):
        for record in part.records:
            record.round = round_
        if part is not whole:
            whole.records += part.records
    whole.rounds = len(parts)
    return whole


if __name__ == "__main__":
    sys.exit(main())
