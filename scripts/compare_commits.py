#!/usr/bin/env python3
"""Check whether `bench.py run` gets the same results at two commits of this repository.

    .venv/bin/python scripts/compare_commits.py HEAD~5 -- 2 4 --time 2s

Each round runs both commits in random order, and passes ARGUMENTS to `bench.py run`. The script writes the results to
base.json and new.json in FOLDER, compares them with `bench.py compare`, and exits with the exit code of that command.

Each round takes as long as two calls of `bench.py run --rounds 1`: one to three minutes for two servers.
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

from under_siege.record.result import Result, load, save

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Run both commits in each round, combine the results of each commit, and compare them."""
    options = _options()
    commits = {"base": options.base, "new": options.new}
    results: dict[str, list[Result]] = {name: [] for name in commits}
    with contextlib.ExitStack() as stack:
        trees = {name: stack.enter_context(_checked_out(commit)) for name, commit in commits.items()}
        for round_ in range(1, options.rounds + 1):
            for name in random.sample(list(trees), 2):
                print(f"round {round_} of {options.rounds}: {name}", file=sys.stderr)
                results[name].append(_run(trees[name], options.arguments, seed=round_))
    options.out.mkdir(parents=True, exist_ok=True)
    files = [options.out / f"{name}.json" for name in commits]
    for file, parts in zip(files, results.values(), strict=True):
        save(_joined(parts), file)
    command = [sys.executable, str(ROOT / "bench.py"), "compare", *map(str, files)]
    return subprocess.run(command, check=False).returncode


def _options() -> argparse.Namespace:
    usage = "%(prog)s [-h] [--rounds N] [--out FOLDER] BASE [NEW] [-- ARGUMENTS]"
    parser = argparse.ArgumentParser(
        usage=usage, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", metavar="BASE", help="commit to compare with")
    parser.add_argument("new", metavar="NEW", nargs="?", default="HEAD", help="commit to check (default: HEAD)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="runs of each commit (default: 5)")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "results" / "commits", metavar="FOLDER", help="default: results/commits"
    )
    arguments = sys.argv[1:]
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:end])
    options.arguments = arguments[end + 1 :]
    return options


@contextlib.contextmanager
def _checked_out(commit: str) -> Iterator[Path]:
    """Check out a commit in a temporary folder, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="under-siege-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def _run(tree: Path, arguments: list[str], seed: int) -> Result:
    out = tree / "one.json"
    command = [sys.executable, "bench.py", "run", "--rounds", "1", "--seed", str(seed), "--quiet", "--out", str(out)]
    completed = subprocess.run([*command, *arguments], cwd=tree, stdout=subprocess.DEVNULL, check=False)
    if completed.returncode in (2, 130, 143):
        raise SystemExit(f"compare_commits.py: bench.py ended with exit code {completed.returncode} in {tree}")
    return load(out)


def _joined(parts: list[Result]) -> Result:
    """Combine results that have one round each into a single result."""
    joined = parts[0]
    for round_, part in enumerate(parts, 1):
        for record in part.records:
            record.round = round_
        if part is not joined:
            joined.records += part.records
    joined.rounds = len(parts)
    return joined


if __name__ == "__main__":
    sys.exit(main())
