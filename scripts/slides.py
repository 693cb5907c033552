#!/usr/bin/env python3
"""Draw the slides in docs/slides from the result that the README shows.

    .venv/bin/python scripts/slides.py

The slides are the pictures of `bench.py report FILE --picture NAME --aspect 16:9 --out FOLDER/NAME.svg`, but the
timeline shows only four strategies. Drawing them takes a few seconds.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.errors import BadInputError
from under_siege.record.result import load
from under_siege.report import view_of
from under_siege.show.chart_file import write_chart
from under_siege.trace import view as trace

ROOT = Path(__file__).resolve().parents[1]
RESULT, SLIDES = ROOT / "results" / "sample.json.gz", ROOT / "docs" / "slides"
PICTURES = ("throughput", "pings", "tradeoff", "memory")
# The four strategies that differ most. With more strategies, the text would be too small for a slide.
TRACED = ("2_async", "3_async_threadexecutor", "4_async_processexecutor", "8_prefork")


def main() -> None:
    """Draw all slides."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--result", type=Path, default=RESULT, metavar="FILE", help="default: results/sample.json.gz")
    parser.add_argument("--out", type=Path, default=SLIDES, metavar="FOLDER", help="default: docs/slides")
    parser.add_argument("--aspect", default="16:9", help="16:9, 4:3 or 1:1 (default: 16:9)")
    options = parser.parse_args()
    try:
        result = load(options.result)
    except BadInputError as error:
        parser.exit(2, f"{parser.prog}: {error}; expected a file that bench.py run wrote with --out\n")
    options.out.mkdir(parents=True, exist_ok=True)
    view = view_of(result)
    for name in PICTURES:
        write_chart(result, view, name, options.out / f"{name}.svg", options.aspect)
        print(options.out / f"{name}.svg")
    result.traces = [trace for trace in result.traces if trace.server in TRACED] or result.traces
    pairs = trace.view(result, side_by_side=True)
    write_chart(result, pairs, "timeline", options.out / "timeline.svg", options.aspect)
    print(options.out / "timeline.svg")


if __name__ == "__main__":
    main()
