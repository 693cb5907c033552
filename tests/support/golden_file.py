"""Golden files: expected texts, updated with `pytest --renew`."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"


def assert_golden(name: str, text: str, renew: bool) -> None:
    """Compare the text with the golden file, or update the file."""
    path = GOLDEN / name
    if renew:
        path.write_text(text)
    assert path.read_text() == text


def sections(path: Path) -> dict[str, str]:
    """Return the texts of a golden file that many tests share, by the names of the tests."""
    parts = re.split(r"^== (.+)\n", path.read_text() if path.exists() else "", flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def assert_section(module: str, test: str, *texts: str, renew: bool) -> None:
    """Compare the texts with the section of a test in the golden file of its module, or update the section."""
    path, text = GOLDEN / f"{module}.txt", "".join(f"{text}\n" for text in (*texts, "")).replace(str(ROOT), "ROOT")
    known = sections(path)
    if renew and known.get(test) != text:
        known[test] = text
        path.write_text("".join(f"== {name}\n{known[name]}" for name in sorted(known)))
    assert known.get(test, "") == text


def texts_of(path: Path) -> list[str]:
    """Return all texts of an SVG file, but no positions, because these depend on fonts."""
    return re.findall(r">([^<>]+)</t(?:ext|span)>", path.read_text())
