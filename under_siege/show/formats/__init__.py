"""One module for each output format, with a function `rendered(view)`. The module's name is the name of the format."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from under_siege.show.view import View

FORMATS = sorted(module.name for module in iter_modules(__path__))


def rendered(view: View, output_format: str) -> str:
    """Return the view as text in one of the FORMATS."""
    text: str = import_module(f"{__name__}.{output_format}").rendered(view)
    return text
