"""The templates of pages and their style sheet, beside this file. Whatever comes from outside is escaped."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

HERE = Path(__file__).parent


def rendered(name: str, *folders: Path, style: str = "", **told: Any) -> str:
    """The template of that name with what is told in it.

    Args:
        folders: where templates are, too, besides here.
        style: comes behind the sheet that all pages have.
    """
    sheet = (HERE / "style.css").read_text(encoding="utf-8")
    return _template(name, folders).render(style=Markup(sheet + style), **told)  # noqa: S704 (ours)


@cache
def _template(name: str, folders: tuple[Path, ...]) -> Template:
    environment = Environment(
        loader=FileSystemLoader([*folders, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
