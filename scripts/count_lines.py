#!/usr/bin/env python3
"""Count the lines of code in each folder of the repository, without comments, docstrings and blank lines.

    .venv/bin/python scripts/count_lines.py             # each top-level folder
    .venv/bin/python scripts/count_lines.py tests/*     # these folders and files

Lines inside other strings count, for example those of a server that a test starts.
"""

import argparse
import ast
import io
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("under_siege", "common", "servers", "scripts", "lesson", "suites", "tests")
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def lines_of_code(path: Path) -> int:
    """Return the number of lines of a Python file that contain code."""
    text = path.read_text()
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def python_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(one for one in path.rglob("*.py") if "node_modules" not in one.parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT / name for name in FOLDERS])
    for path in parser.parse_args().paths:
        if files := python_files(path):
            name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{sum(map(lines_of_code, files)):7,}  {name}")


if __name__ == "__main__":
    main()
