"""A MkDocs hook: links from docs/ to other files of the repository lead to the repository's site."""

import re
from typing import Any


def on_page_markdown(markdown: str, page: Any, config: dict[str, str], **_: object) -> str:
    """Return the page with links that leave docs/, such as ../suites/wsgi/README.md, made absolute."""
    up = "../" * (page.file.src_uri.count("/") + 1)
    return re.sub(rf"\]\({re.escape(up)}([^)]+)\)", rf"]({config['repo_url']}/blob/main/\1)", markdown)
