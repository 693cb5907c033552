#!/usr/bin/env python3
"""Draws the slides of docs/slides from the result that the README shows.

usage: .venv/bin/python scripts/slides.py [--result FILE] [--out FOLDER] [--aspect 16:9]

One file for each picture, as `bench.py report FILE --picture NAME --aspect 16:9 --out FOLDER/NAME.svg` draws it.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.model.record import load
from common.report.pictures import write_picture

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ("throughput", "pings", "tradeoff", "memory")
# Who computes when: one way each to wait, two rows of two; more can't be seen from the last row.
TRACED = ("2_async", "3_async_threadexecutor", "4_async_processexecutor", "8_prefork")


def main() -> None:
    """Draws them all."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--result", type=Path, default=ROOT / "results" / "sample.json")
    options.add_argument("--out", type=Path, default=ROOT / "docs" / "slides")
    options.add_argument("--aspect", default="16:9")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    result = load(given.result)
    for name in PICTURES:
        write_picture(result, name, given.out / f"{name}.svg", given.aspect)
        print(given.out / f"{name}.svg")
    result.traces = [one for one in result.traces if one.server in TRACED] or result.traces
    write_picture(result, "timeline", given.out / "timeline.svg", given.aspect, columns=2)
    print(given.out / "timeline.svg")


if __name__ == "__main__":
    main()
