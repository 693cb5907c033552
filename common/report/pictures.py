"""One picture of a result in a file of its own, for a slide or a README."""

from collections.abc import Iterator
from pathlib import Path

from common.errors import BadInputError
from common.model.outfile import write_whole
from common.model.record import Result, save
from common.report.charts.look import FILE, as_png, as_svg
from common.report.judging.capacity import capacities
from common.report.judging.comparison import summarize
from common.report.page.capacity_page import capacity_pictures
from common.report.page.page import as_html
from common.report.page.sections import Picture, sections

_SUFFIXES = (".svg", ".png", ".html", ".json")


def check_suffix(path: Path) -> None:
    """Raises BadInputError if nothing can be drawn as that."""
    if path.suffix not in _SUFFIXES:
        raise BadInputError(f"can't draw as {path.name!r}: expected a name that ends in {', '.join(_SUFFIXES)}")


def write_picture(result: Result, name: str, path: Path) -> None:
    """Draws the picture of that name (of the first task, where there are several); the suffix says as what.

    Raises:
        BadInputError: the result has nothing to draw it from, or the suffix is unknown.
    """
    check_suffix(path)
    if path.suffix == ".html":
        write_whole(path, as_html(result).encode())
        return
    if path.suffix == ".json":
        save(result, path)
        return
    pictures = _pictures(result)
    picture = next((picture for picture in pictures if picture.name == name), None)
    if picture is None:
        hows = {"timeline": "run with --trace", "capacity": "take a result of bench.py capacity"}
        how = hows.get(name, "take a result with cases that have numbers")
        raise BadInputError(f"nothing in this result to draw {name} from: {how}")
    if path.suffix == ".svg":
        write_whole(path, as_svg(picture.draw(FILE), FILE).encode())
    else:
        write_whole(path, as_png(picture.draw(FILE), FILE))


def _pictures(result: Result) -> Iterator[Picture]:
    if result.steps:
        return capacity_pictures(capacities(result))
    return (picture for section in sections(result, summarize(result)) for picture in section.pictures)
