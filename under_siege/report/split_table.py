"""One table, or several where the terminal is too narrow for one: no figure is ever cut."""

import itertools
from collections.abc import Callable, Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

UNLIMITED = 10_000  # columns of a terminal


def fitting(
    console: Console, options: ConsoleOptions, count: int, table: Callable[[slice], Table]
) -> Iterator[RenderableType]:
    """As few tables as it takes, each with an equal share of so many columns, and a blank line between them."""
    unlimited, tables = options.update_width(UNLIMITED), list[Table]()
    for parts in range(1, count + 1):
        edges = [round(part * count / parts) for part in range(parts + 1)]
        tables = [table(slice(*both)) for both in itertools.pairwise(edges)]
        if max(Measurement.get(console, unlimited, one).maximum for one in tables) <= options.max_width:
            break
    for place, one in enumerate(tables):
        yield from ([Text()] if place else [])
        yield one
