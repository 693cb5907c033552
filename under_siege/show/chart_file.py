"""Write one chart of a view to a file."""

from pathlib import Path

from common.errors import BadInputError
from under_siege.paths import PROGRAM
from under_siege.record.files import write_atomically
from under_siege.record.result import Result, save
from under_siege.show.charts import as_png, check_aspect, renderer
from under_siege.show.output import print_or_write
from under_siege.show.view import View

SUFFIXES = (".svg", ".png", ".html", ".json", ".json.gz")
_REMEDIES = {
    "timeline": "run with --trace",
    "capacity": f"use a result of {PROGRAM} capacity",
    "processes": "use a result in which a server has several busy processes",
}


def write_chart(result: Result, view: View, name: str, path: Path, aspect: str | None = None) -> None:
    """Draw the chart with this name (if there are several, the first one) in the format given by the suffix.

    For `.html`, write the whole page instead; for `.json` and `.json.gz`, write the raw values.

    Args:
        aspect: the shape of a slide, such as `16:9`, or None for a chart that is as tall as needed.

    Raises:
        BadInputError: the view has no such chart, or the suffix or the aspect is unknown.
    """
    check_suffix(path)
    check_aspect(aspect)
    if path.suffix == ".html":
        print_or_write(view, "html", path)
        return
    if path.name.endswith((".json", ".json.gz")):
        save(result, path)
        return
    figure = next((figure for figure in view.figures if figure.name == name), None)
    if figure is None:
        remedy = _REMEDIES.get(name, "use a result in which at least one case did not fail")
        raise BadInputError(f"this result has no data for the picture {name}: {remedy}")
    svg = figure.alone(aspect)
    write_atomically(path, svg.encode() if path.suffix == ".svg" else as_png(svg, aspect))


def check_suffix(path: Path) -> None:
    """Raise BadInputError if the suffix is not supported, or if the package that draws charts is missing."""
    if not path.name.endswith(SUFFIXES):
        raise BadInputError(f"can't draw {path.name!r}: expected one of the suffixes {', '.join(SUFFIXES)}")
    if path.suffix in (".svg", ".png"):
        renderer()
