"""Compressed bodies are decoded before they are checked."""

import gzip
import zlib

import pytest

from under_siege.load.content_encoding import decoded
from under_siege.record.record import CaseFailedError


def test_each_encoding_is_decoded() -> None:
    body = b"a body " * 1000
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    encoded = {
        "": body,
        "identity": body,
        "gzip": gzip.compress(body),
        "x-gzip": gzip.compress(body),
        "deflate": zlib.compress(body),
        "Deflate": raw.compress(body) + raw.flush(),
        "GZIP": gzip.compress(body[:999]) + gzip.compress(body[999:]),  # several members (RFC 1952, 2.2)
        "gzip, deflate": zlib.compress(gzip.compress(body)),
    }
    for encoding, sent in encoded.items():
        assert decoded(sent, encoding) == body, encoding
    brotli = pytest.importorskip("brotli")
    assert decoded(brotli.compress(body), "br") == body


@pytest.mark.parametrize(
    ("sent", "encoding", "code", "word"),
    [
        (b"plain text", "gzip", "wrong_answer", "gzip"),
        (gzip.compress(b"a body", mtime=0)[:-9], "gzip", "wrong_answer", "incomplete"),
        (b"x", "compress", "no_decoder", "Accept-Encoding"),
    ],
    ids=["not compressed", "incomplete", "unknown"],
)
def test_a_body_that_can_not_be_decoded_causes_a_one_line_error(
    sent: bytes, encoding: str, code: str, word: str
) -> None:
    with pytest.raises(CaseFailedError) as error:
        decoded(sent, encoding)
    assert error.value.code == code
    assert word in str(error.value)
    assert "\n" not in str(error.value)
