"""A MkDocs hook for links from docs/ to other files of the repository, which are not on the site.

If mkdocs.yml sets `repo_url`, these links lead to the repository's site; otherwise, only their text remains.
"""

import re
from typing import Any


def on_page_markdown(markdown: str, page: Any, config: dict[str, str | None], **_: object) -> str:
    """Return the page with links that leave docs/, such as ../suites/wsgi/README.md, made absolute or removed."""
    up = "../" * (page.file.src_uri.count("/") + 1)
    url = config["repo_url"]
    becomes = rf"[\1]({url}/blob/main/\2)" if url else r"\1"
    return re.sub(rf"\[([^\]]+)\]\({re.escape(up)}([^)]+)\)", becomes, markdown)
