#!/usr/bin/env python3
"""Print a table of measurements that another script in this folder saved with --out.

    .venv/bin/python scripts/measured_table.py results/questions/08-memory-growth.json

memory_growth.py, rolling_update.py and simulate_probes.py save such tables.
"""

import argparse
from pathlib import Path

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

WIDTH = 100


class Cell(msgspec.Struct, frozen=True):
    """A measured value, in the base unit of its metric (for example, s or bytes), and the text that the table shows."""

    value: float
    text: str


class MeasuredTable(msgspec.Struct, frozen=True):
    """A table with one row for each case and one column for each metric."""

    command: str  # the command that produced the table
    conditions: str  # how the values were measured: for example, with how many users
    rows: dict[str, dict[str, Cell]]  # by case, then by metric

    def save(self, path: Path) -> None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def load(path: Path) -> MeasuredTable:
    """Read a table; raise msgspec.DecodeError if the file contains anything else."""
    table = msgspec.json.decode(path.read_bytes(), type=MeasuredTable)
    if len({tuple(cells) for cells in table.rows.values()}) != 1:
        raise msgspec.ValidationError("expected at least one row, and the same metrics in all rows")
    return table


def show(measured: MeasuredTable) -> None:
    """Print the table and its conditions."""
    metrics = list(next(iter(measured.rows.values())))
    table = Table("", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for metric in metrics:
        table.add_column(metric, justify="right")
    for case, cells in measured.rows.items():
        table.add_row(case, *(cells[metric].text for metric in metrics))
    console = Console(width=WIDTH, highlight=False, markup=False, color_system=None)
    console.print(table)
    console.print(f"\n{measured.conditions}")


def main() -> None:
    """Print the table in FILE."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, metavar="FILE", help="a file that a script wrote with --out")
    path = parser.parse_args().file
    try:
        measured = load(path)
    except OSError as error:
        parser.exit(2, f"{parser.prog}: {path}: {error.strerror}; expected a file that a script wrote with --out\n")
    except (msgspec.DecodeError, RecursionError) as error:
        parser.exit(
            2, f"{parser.prog}: {path}: not a table: {error}; for a result of bench.py, use bench.py report {path}\n"
        )
    show(measured)


if __name__ == "__main__":
    main()
