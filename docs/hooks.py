"""A MkDocs hook: links from docs/ to other files of the repository lead to the repository's site."""

import re


def on_page_markdown(markdown: str, config: dict[str, str], **_: object) -> str:
    """Return the page with links such as ../suites/wsgi/README.md made absolute."""
    return re.sub(r"\]\(\.\./([^)]+)\)", rf"]({config['repo_url']}/blob/main/\1)", markdown)
