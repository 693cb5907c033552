"""Build the body of a form with files, as browsers send it (RFC 7578)."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from urllib3 import encode_multipart_formdata


class Field(NamedTuple):
    """A field of a form; `file_name` is empty if the value is text."""

    name: str
    value: bytes
    file_name: str = ""


def multipart(fields: Sequence[Field]) -> tuple[str, bytes]:
    """Return the content type and the body. Both are the same for the same fields, so that results can be compared."""
    parts = [(name, (file_name, value) if file_name else value) for name, value, file_name in fields]
    body, _ = encode_multipart_formdata(parts, boundary="")
    # A value that contains its own digest is practically impossible.
    boundary = f"form-{hashlib.sha256(body).hexdigest()[:32]}"
    body, content_type = encode_multipart_formdata(parts, boundary=boundary)
    return content_type, body
