"""Render the data of a view as JSON. Users rely on the keys."""

import msgspec

from under_siege.show.view import View


def rendered(view: View) -> str:
    """Return the data as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(view.data), indent=2).decode()
