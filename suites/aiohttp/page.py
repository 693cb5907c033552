"""The page of fortunes."""

from collections.abc import Iterable
from html import escape

ADDED = "Additional fortune added at request time."


def page(fortunes: Iterable[tuple[int, str]]) -> str:
    """Return the page with these fortunes and an added fortune, sorted by message."""
    rows = sorted([*fortunes, (0, ADDED)], key=lambda fortune: fortune[1])
    cells = "".join(f"<tr><td>{number}</td><td>{escape(message)}</td></tr>" for number, message in rows)
    table = f"<table><tr><th>id</th><th>message</th></tr>{cells}</table>"
    return f"<!DOCTYPE html><html><head><title>Fortunes</title></head><body>{table}</body></html>"
