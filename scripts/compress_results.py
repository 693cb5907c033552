#!/usr/bin/env python3
"""Compress result files for the repository: replace each FILE.json by FILE.json.gz.

    .venv/bin/python scripts/compress_results.py results/tasks.json results/questions/*.json

The samples of the speed probe are most of a result, so the moments of the samples are rounded to 10 ms, and the CPU
times to 0.1 µs. This changes mean speeds by less than 0.1 %. Files that are not results of bench.py, such as the tables
of measured_table.py, are left alone.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from under_siege.record.result import BadResultError, load, save


def compress(path: Path) -> Path:
    """Replace a result file by its compressed form, and return the path of the new file."""
    result = load(path)
    for record in (*result.records, *(step.record for step in result.steps)):
        record.speed_samples.at_s[:] = [round(at_s, 2) for at_s in record.speed_samples.at_s]
        record.speed_samples.took_s[:] = [round(took_s, 7) for took_s in record.speed_samples.took_s]
    compressed = path if path.suffix == ".gz" else path.with_name(f"{path.name}.gz")
    save(result, compressed)
    if compressed != path:
        path.unlink()
    return compressed


def main() -> None:
    """Compress all files, and print their names and sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a file that bench.py wrote with --out")
    for path in parser.parse_args().files:
        try:
            compressed = compress(path)
        except BadResultError as error:
            print(error, file=sys.stderr)
            continue
        print(f"{compressed}: {compressed.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
