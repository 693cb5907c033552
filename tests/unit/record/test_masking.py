"""Secrets: they are read from the environment, and masked in everything that the bench shows or saves."""

import gzip
import json
import re
import time
from pathlib import Path

import pytest
from conftest import ROOT

from common.errors import BadInputError
from under_siege.record.result import load
from under_siege.report import formatted
from under_siege.secrets import expanded, expanded_file, expanded_header, expanded_json, is_secret, masked

VALUE = 'n0t/f0r "anyone"'


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIT_TOKEN", VALUE)
    monkeypatch.setenv("UNIT_EMPTY", "")
    monkeypatch.setenv("UNIT_LINES", "first\nsecond")
    monkeypatch.delenv("UNIT_UNSET", raising=False)


def test_variables_are_replaced_and_a_double_dollar_sign_protects_them() -> None:
    assert expanded("a ${UNIT_TOKEN} b $${UNIT_TOKEN} $UNIT_TOKEN ${1}", "key") == (
        f"a {VALUE} b ${{UNIT_TOKEN}} $UNIT_TOKEN ${{1}}"
    )
    assert expanded_json({"${UNIT_TOKEN}": ["${UNIT_TOKEN}", 1]}, "key") == {"${UNIT_TOKEN}": [VALUE, 1]}
    assert expanded_file(b"a=${UNIT_TOKEN}", "key") == f"a={VALUE}".encode()
    assert expanded_file(b"\xff${UNIT_TOKEN}", "key") == b"\xff${UNIT_TOKEN}"


@pytest.mark.parametrize("name", ["UNIT_UNSET", "UNIT_EMPTY"])
def test_a_variable_without_a_value_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(BadInputError, match=rf"^load\.body: .*{name} "):
        expanded(f"${{{name}}}", "load.body")


def test_a_header_with_a_line_break_is_an_error_that_does_not_show_the_value() -> None:
    with pytest.raises(BadInputError, match="UNIT_LINES") as error:
        expanded_header("X-Shop", "${UNIT_LINES}", "load.headers.X-Shop")
    assert "second" not in str(error.value)


def test_values_of_variables_are_masked_in_every_spelling() -> None:
    expanded("${UNIT_TOKEN}", "key")
    for spelling in (VALUE, VALUE.replace('"', '\\"'), "n0t/f0r%20%22anyone%22", "n0t%2Ff0r%20%22anyone%22"):
        assert masked(f"sent {spelling} twice") == "sent ${UNIT_TOKEN} twice"


MASKED = {
    "Authorization: Bearer 1234": "Authorization: ***",
    "PROXY-AUTHORIZATION:Basic 1234 5": "PROXY-AUTHORIZATION:***",
    "cookie: a=1; b=2": "cookie: ***",
    "Set-Cookie: a=1; Path=/": "Set-Cookie: ***",
    "{'x-api-key': '1 2', 'a': 'b'}": "{'x-api-key': '***', 'a': 'b'}",
    "[(b'X-CSRF-TOKEN', b'1234')]": "[(b'X-CSRF-TOKEN', b'***')]",
    'load.headers.My-Secret-Name = "1 2": expected': 'load.headers.My-Secret-Name = "***": expected',
    "GET /a?session_key=1234&b=2 200": "GET /a?session_key=***&b=2 200",
    "first\nX-Token: 1234\nlast": "first\nX-Token: ***\nlast",
}


@pytest.mark.parametrize("text", MASKED)
def test_values_after_a_secret_name_are_masked(text: str) -> None:
    assert masked(text) == MASKED[text]


@pytest.mark.parametrize(
    "text", ["KeyError: 'items'", "HTTP/1.1,200,  0.17,      4,/,0", "X-Shop: 7", "keep-alive", "unknown key 'a': b"]
)
def test_other_text_is_not_masked(text: str) -> None:
    assert masked(text) == text


def test_secret_headers_are_recognized_by_name_or_value() -> None:
    expanded("${UNIT_TOKEN}", "key")
    assert is_secret("AUTHORIZATION", "")
    assert is_secret("X-My-Token-Id", "")
    assert is_secret("X-Shop", f"a {VALUE}")
    assert not is_secret("X-Shop", "7")


def test_the_value_of_a_secret_header_is_masked_wherever_it_occurs() -> None:
    expanded_header("Authorization", "Bearer unit-test-value", "key")
    assert masked("got unit-test-value, and Bearer unit-test-value") == "got ***, and ***"


@pytest.mark.parametrize("text", ["a" * 100_000, "key" * 50_000, "token:" * 30_000, "'key" * 30_000])
def test_masking_long_text_takes_linear_time(text: str) -> None:
    began_s = time.process_time()
    masked(text)
    assert time.process_time() - began_s < 5


def test_results_of_earlier_versions_are_masked_when_they_are_loaded(tmp_path: Path, undrawn: None) -> None:
    result = json.loads(gzip.decompress((ROOT / "results" / "orders.json.gz").read_bytes()))
    for record in result["records"]:
        record["tool_command"][1:1] = ["-H", "AUTHORIZATION: Bearer unit-0", "-HX-Api-Key:unit-1"]
        record["server_said"] = "cookie: shop=unit-2; user=1"
    result["records"][0]["failure"] = {"code": "wrong_answer", "message": '200 with \'{"password_key": "unit-3"'}
    (tmp_path / "old.json").write_text(json.dumps(result))
    for output_format in ("table", "markdown", "csv", "json", "html"):
        assert re.findall(r"unit-\d", formatted(load(tmp_path / "old.json"), output_format)) == []
