#!/usr/bin/env python3
"""Break each promise in tests/promises.toml on purpose, and print the promises whose tests don't notice.

    .venv/bin/python scripts/break_promises.py                # all promises
    .venv/bin/python scripts/break_promises.py masks ceiling  # the promises whose name contains one of these words

A promise names a function of the product and a snippet of its code, which must occur exactly once in it. The script
replaces the snippet in a copy of the repository and runs the tests named for the promise there. One of them must fail.
Before, it runs all these tests in an unchanged copy, where none may fail. Exit code: 0 if every broken promise was
noticed, 1 otherwise, 2 if tests/promises.toml is wrong.
"""

import argparse
import ast
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROMISES = ROOT / "tests" / "promises.toml"
FAILED = 1  # pytest's exit code if a test failed; the others mean that no test was run
LIMIT_S = 900


class WrongPromiseError(Exception):
    """A promise that does not fit the code."""


@dataclass(frozen=True)
class Promise:
    name: str
    says: str  # what users are promised
    function: str  # path/of/module.py:Class.method, or path/of/module.py for code outside functions
    snippet: str  # code that occurs once in the function
    broken: str  # what replaces the snippet
    tests: tuple[str, ...]  # arguments of pytest: files, or files with ::test names

    @property
    def path(self) -> str:
        return self.function.partition(":")[0]


def read_promises() -> list[Promise]:
    with PROMISES.open("rb") as file:
        entries = tomllib.load(file)
    return [Promise(name, **{**entry, "tests": tuple(entry["tests"])}) for name, entry in entries.items()]


def broken_source(promise: Promise, source: str) -> str:
    """Return the source of the module with the snippet replaced in the function."""
    begin, end = _extent(promise, source)
    lines = source.splitlines(keepends=True)
    inside = "".join(lines[begin:end])
    found = inside.count(promise.snippet)
    if found != 1:
        raise WrongPromiseError(
            f"{promise.name}: {promise.snippet!r} occurs {found} times in {promise.function}, not once"
        )
    return "".join(lines[:begin]) + inside.replace(promise.snippet, promise.broken) + "".join(lines[end:])


def _extent(promise: Promise, source: str) -> tuple[int, int]:
    """Return the first line of the function, counted from 0, and the line after its last line."""
    _, _, name = promise.function.partition(":")
    node: ast.AST = ast.parse(source)
    if not name:
        return 0, len(source.splitlines())
    for part in name.split("."):
        body = getattr(node, "body", [])
        node = next((one for one in body if getattr(one, "name", "") == part), None)  # type: ignore[assignment]
        if node is None:
            raise WrongPromiseError(f"{promise.name}: {promise.function} does not exist")
    return node.lineno - 1, node.end_lineno  # type: ignore[attr-defined]


def copy_of_the_repository(folder: Path) -> Path:
    """Copy the files that git tracks or would add, as they are in the working tree."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, names)):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


def run_tests(folder: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "pytest", "-q", "--exitfirst", "-p", "no:cacheprovider", "--all", *tests]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, env=environment, check=False
    )


def unnoticed(promise: Promise, folder: Path) -> str:
    """Break the promise in this copy, run its tests, and mend it; return what is wrong, or nothing."""
    path = folder / promise.path
    source = path.read_text()
    path.write_text(broken_source(promise, source))
    try:
        ran = run_tests(folder, promise.tests)
    except subprocess.TimeoutExpired:
        return f"its tests did not end within {LIMIT_S} s"
    finally:
        path.write_text(source)
    if ran.returncode == FAILED:
        return ""
    return "no test failed" if ran.returncode == 0 else f"pytest ended with {ran.returncode}: {ran.stdout[-500:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="break only promises whose name contains one of these words")
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="promises broken at the same time"
    )
    options = parser.parse_args()
    promises = [one for one in read_promises() if not options.words or any(word in one.name for word in options.words)]
    try:
        for promise in promises:
            broken_source(promise, (ROOT / promise.path).read_text())
    except (WrongPromiseError, OSError) as error:
        print(f"break_promises: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="promises-") as place:
        folders = [copy_of_the_repository(Path(place, str(number))) for number in range(options.jobs)]
        tests = tuple(dict.fromkeys(test for promise in promises for test in promise.tests))
        ran = run_tests(folders[0], tests)
        if ran.returncode:
            print(f"break_promises: these tests fail with unbroken promises:\n{ran.stdout[-3000:]}", file=sys.stderr)
            return 1
        missed = break_all(promises, folders)
    for promise, why in missed:
        print(f"NOT NOTICED {promise.name} ({why}):\n{textwrap.indent(textwrap.fill(promise.says, 110), '    ')}")
    print(f"{len(promises) - len(missed)} of {len(promises)} broken promises were noticed")
    return 1 if missed else 0


def break_all(promises: list[Promise], folders: list[Path]) -> list[tuple[Promise, str]]:
    """Break the promises, one at a time in each copy; return those that nobody noticed, and why."""
    free = list(folders)

    def check(promise: Promise) -> tuple[Promise, str]:
        folder = free.pop()
        try:
            return promise, unnoticed(promise, folder)
        finally:
            free.append(folder)

    missed = []
    with concurrent.futures.ThreadPoolExecutor(len(folders)) as pool:
        for promise, why in pool.map(check, promises):
            print(f"{'NOT NOTICED' if why else 'noticed':<12} {promise.name}", file=sys.stderr, flush=True)
            if why:
                missed.append((promise, why))
    return missed


if __name__ == "__main__":
    sys.exit(main())
