"""One picture of a result in a file of its own, for a slide or a README."""

from collections.abc import Iterator
from pathlib import Path

from common.errors import BadInputError
from under_siege.analysis.report_data import summarize
from under_siege.capacity.capacity_page import capacity_pictures
from under_siege.capacity.capacity_result import capacities
from under_siege.charts.chart_file import as_png, check_aspect
from under_siege.charts.html import Picture
from under_siege.model.record import Result, save
from under_siege.model.result_file import write_whole
from under_siege.pages.comparison_page import as_html
from under_siege.pages.page_sections import sections, traced
from under_siege.paths import PROGRAM

_SUFFIXES = (".svg", ".png", ".html", ".json")


def check_suffix(path: Path) -> None:
    """Raises BadInputError if nothing can be drawn as that."""
    if path.suffix not in _SUFFIXES:
        raise BadInputError(f"can't draw as {path.name!r}: expected a name that ends in {', '.join(_SUFFIXES)}")


def write_picture(result: Result, name: str, path: Path, aspect: str | None = None, columns: int = 1) -> None:
    """Draws the picture of that name (of the first task, where there are several); the suffix says as what.

    Args:
        aspect: of a slide, such as `16:9`; else it is as high as it takes.
        columns: in which timelines stand beside each other.

    Raises:
        BadInputError: the result has nothing to draw it from, or the suffix or the aspect is unknown.
    """
    check_suffix(path)
    check_aspect(aspect)
    if path.suffix == ".html":
        write_whole(path, as_html(result).encode())
        return
    if path.suffix == ".json":
        save(result, path)
        return
    pictures = [traced(result, columns)] if columns > 1 and result.traces else _pictures(result)
    picture = next((picture for picture in pictures if picture.name == name), None)
    if picture is None:
        hows = {"timeline": "run with --trace", "capacity": f"take a result of {PROGRAM} capacity"}
        how = hows.get(name, "take a result with cases that have numbers")
        raise BadInputError(f"nothing in this result to draw {name} from: {how}")
    svg = picture.alone(aspect)
    write_whole(path, svg.encode() if path.suffix == ".svg" else as_png(svg, is_slide=aspect is not None))


def _pictures(result: Result) -> Iterator[Picture]:
    if result.steps:
        return capacity_pictures(capacities(result))
    return (picture for section in sections(result, summarize(result)) for picture in section.pictures)
