"""How responses are described in messages."""

from under_siege.load.http_client import HttpResponse


def test_a_binary_body_is_described_by_its_type() -> None:
    answer = HttpResponse(200, b"PK\x03\x04\x14\x00\xff", {"content-type": "application/zip"})
    assert answer.described() == "200 with 7 bytes of application/zip"
    assert HttpResponse(200, b"a\nb", {}).described() == "200 with 3 bytes 'a b'"
