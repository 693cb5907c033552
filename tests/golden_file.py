"""Golden files: what a report is expected to be, renewed with `pytest --renew`."""

from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def assert_golden(name: str, text: str, renew: bool) -> None:
    """Compares with the file of that name, or writes it anew."""
    path = GOLDEN / name
    if renew:
        path.write_text(text)
    assert path.read_text() == text
