"""What has to be known of a comparison beside its figures, though nothing is wrong: what could not run, and the GIL."""

from collections.abc import Iterator

from common.record import Result
from common.report.summary import Comparison


def notes(result: Result, comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Each with the server that it is about."""
    several = len({*(one.python for one in result.left_out), *(case.python for case in comparison.cases)}) > 1
    for one in result.left_out:
        yield one.server, f"not run{f' under Python {one.python}' if several else ''}: it {one.reason}"
    told = set()
    for case in comparison.cases:
        if case.gil and "t" in case.python.split()[0] and (case.server, case.python) not in told:
            told.add((case.server, case.python))
            yield (
                case.server,
                f"the GIL was on while it served, though Python {case.python} can do without: "
                "a package that it needs has switched it on",
            )
