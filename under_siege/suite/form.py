"""Build the body of a form with files, as browsers send it (RFC 7578)."""

import hashlib
import mimetypes
from collections.abc import Sequence
from typing import NamedTuple

DEFAULT_TYPE = "application/octet-stream"
# As in the HTML standard, section "multipart form data".
_ESCAPES = str.maketrans({"\n": "%0A", "\r": "%0D", '"': "%22"})


class FormField(NamedTuple):
    """A field of a form; `file_name` is empty if the value is text."""

    name: str
    value: bytes
    file_name: str = ""

    def head(self) -> str:
        """Return the headers of the part."""
        lines = f'Content-Disposition: form-data; name="{self.name.translate(_ESCAPES)}"'
        if self.file_name:
            kind = mimetypes.guess_type(self.file_name)[0] or DEFAULT_TYPE
            lines += f'; filename="{self.file_name.translate(_ESCAPES)}"\r\nContent-Type: {kind}'
        return lines


def multipart(fields: Sequence[FormField]) -> tuple[str, bytes]:
    """Return the content type and the body. Both are the same for the same fields, so that results can be compared."""
    digest = hashlib.sha256(b"\0".join(part for field in fields for part in (field.head().encode(), field.value)))
    boundary = f"form-{digest.hexdigest()[:32]}"  # a value that contains its own digest is practically impossible
    parts = [f"--{boundary}\r\n{field.head()}\r\n\r\n".encode() + field.value + b"\r\n" for field in fields]
    return f"multipart/form-data; boundary={boundary}", b"".join([*parts, f"--{boundary}--\r\n".encode()])
