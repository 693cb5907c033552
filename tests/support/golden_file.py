"""Golden files: expected reports, updated with `pytest --renew`."""

import re
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"


def assert_golden(name: str, text: str, renew: bool) -> None:
    """Compare the text with the golden file, or update the file."""
    path = GOLDEN / name
    if renew:
        path.write_text(text)
    assert path.read_text() == text


def texts_of(path: Path) -> list[str]:
    """Return all texts of an SVG file, but no positions, because these depend on fonts."""
    return re.findall(r">([^<>]+)</t(?:ext|span)>", path.read_text())
