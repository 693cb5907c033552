"""Decode compressed bodies (RFC 9110, section 8.4)."""

import importlib
import zlib
from collections.abc import Callable

from common.errors import one_line
from under_siege.formatting import megabytes
from under_siege.record.record import CaseFailedError

BROWSERS = "gzip, deflate, br, zstd"  # the Accept-Encoding of current browsers
MOST_BYTES = 256_000_000  # maximum size of a decoded body
_ZLIB_OR_GZIP, _RAW = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS
_LIBRARIES = {"br": ("brotli", "brotlicffi"), "zstd": ("compression.zstd", "backports.zstd")}


def decoded(body: bytes, encodings: str) -> bytes:
    """Return the body without the encodings in its header `Content-Encoding`.

    Raises:
        CaseFailedError: the body can't be decoded, or the package that decodes it is not installed.
    """
    for name in reversed(encodings.lower().split(",")):
        encoding = name.strip().removeprefix("x-")
        if not body or encoding in ("", "identity"):
            continue
        decode = _inflated if encoding in ("gzip", "deflate") else _decoder(encoding)
        try:
            body = decode(body)
        except CaseFailedError:
            raise
        except Exception as error:  # each package has its own kind of error
            why = f"the response can't be decoded as {encoding}: {one_line(error)}"
            raise CaseFailedError("wrong_answer", why) from None
    return body


def _inflated(body: bytes) -> bytes:
    is_raw = body[:2] != b"\x1f\x8b" and (body[0] & 0x0F != zlib.DEFLATED or int.from_bytes(body[:2]) % 31)
    found = b""
    while body:  # gzip may have several members (RFC 1952, 2.2)
        member = zlib.decompressobj(_RAW if is_raw else _ZLIB_OR_GZIP)  # some servers send deflate without its header
        found += member.decompress(body, MOST_BYTES - len(found) + 1)
        if not member.eof or len(found) > MOST_BYTES:
            raise EOFError(f"it is incomplete, or has more than {megabytes(MOST_BYTES)}")
        body = b"" if is_raw else member.unused_data
    return found


def _decoder(encoding: str) -> Callable[[bytes], bytes]:
    for library in _LIBRARIES.get(encoding, ()):
        try:
            decode: Callable[[bytes], bytes] = importlib.import_module(library).decompress
        except ImportError:
            continue
        return decode
    package = {"br": "brotli", "zstd": "backports.zstd"}.get(encoding)
    remedy = f"install the package {package}, or remove" if package else "remove"
    raise CaseFailedError("no_decoder", f"the bench can't decode {encoding}: {remedy} it from Accept-Encoding")
