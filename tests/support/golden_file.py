"""Golden files: what a report is expected to be, renewed with `pytest --renew`."""

import re
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"


def assert_golden(name: str, text: str, renew: bool) -> None:
    """Compares with the file of that name, or writes it anew."""
    path = GOLDEN / name
    if renew:
        path.write_text(text)
    assert path.read_text() == text


def what_is_drawn(path: Path) -> list[str]:
    """All texts and the shapes of all marks; where they are placed may differ by the width of a font."""
    return re.findall(r">([^<]+)</text>|<path d=\"([^\"]+)\" fill", path.read_text())
