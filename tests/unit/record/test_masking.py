"""Secrets: they are read from the environment, and masked in everything that the bench shows or saves."""

import gzip
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest
from conftest import ROOT
from formatted import formatted

from common.errors import BadInputError
from under_siege.host.managed_process import LONGEST_ERROR, LONGEST_QUOTE, last_error, last_line
from under_siege.record.record import Frames
from under_siege.record.result import load, made_legible
from under_siege.secrets import (
    expanded,
    expanded_file,
    expanded_header,
    expanded_json,
    expanded_path,
    has_secret,
    is_secret,
    is_secret_name,
    masked,
    masked_difference,
    masked_template,
)

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
    with pytest.raises(BadInputError, match=rf"^load\.body .*{name},"):
        expanded(f"${{{name}}}", "load.body")


def test_values_in_a_path_are_encoded_so_that_the_server_gets_them_back() -> None:
    path = expanded_path("/a?who=${UNIT_TOKEN}&b=$${UNIT_TOKEN}", "load.path")
    assert unquote(path) == f"/a?who={VALUE}&b=${{UNIT_TOKEN}}"
    assert masked(path) == "/a?who=${UNIT_TOKEN}&b=${UNIT_TOKEN}"
    assert has_secret(path)


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
    'Authorization: Digest user="a", response="1"\nHost: b': "Authorization: ***\nHost: b",
    # in JSON, and in JSON within a string
    '{"user": "ann", "password": "1\\"2", "a": 1}': '{"user": "ann", "password": "***", "a": 1}',
    r'"{\"password\": \"1\\\"2\", \"a\": 1}"': r'"{\"password\": \"***\", \"a\": 1}"',
    '{"pwd": 1234, "total_tokens": 57, "jwt": null}': '{"pwd": ***, "total_tokens": 57, "jwt": null}',
    '{"credentials": {"login": ["1", "}"]}, "a": 1}': '{"credentials": ***, "a": 1}',
    '{"tokens": ["1", "2"], "a": 1}': '{"tokens": ***, "a": 1}',
    "f(auth=('ann', '1'), b=2)": "f(auth=***, b=2)",
    # in forms, queries and markup
    "user=ann&passwd=1)2,3&a=1": "user=ann&passwd=***&a=1",
    "user[password]=1&user%5Bpassword%5D=2&a=1": "user[password]=***&user%5Bpassword%5D=***&a=1",
    'form-data; name="password"\r\n\r\n1 2\r\n--x': 'form-data; name="password"\r\n\r\n***\r\n--x',
    '<input name="csrfmiddlewaretoken" value="1"><b>': '<input name="csrfmiddlewaretoken" value="***"><b>',
    "<user>ann</user><password>1</password>": "<user>ann</user><password>***</password>",
    # in URLs
    "postgresql://ann:1@2@db:5432/shop?a=b@c": "postgresql://ann:***@db:5432/shop?a=b@c",
    "git+https://1234@example.org/shop": "git+https://***@example.org/shop",
    # as programs print them
    "password = 1234 # 5": "password = *** # 5",
    r"b'GET / HTTP/1.1\r\nAuthorization: Bearer 1\r\nHost: b'": r"b'GET / HTTP/1.1\r\nAuthorization: ***\r\nHost: b'",
    "\x1b[36mpassword\x1b[0m=\x1b[35m1234 \x1b[36ma": "\x1b[36mpassword\x1b[0m=\x1b[35m*** \x1b[36ma",
}
MASKED_NAMES = """
    password newPassword DB_PASSWORD password2 passwd pwd user_pwd PGPASSWORD credential aws-credentials jwt idJwt auth
    X-Auth auth_code session SESSION_ID sessionid PHPSESSID X-Amz-Signature sig Authorization Cookie apiKey TOKEN
"""
OTHER_NAMES = "author authors Author authority sessions passwords_ assign signal design KeyError TokenException"


@pytest.mark.parametrize("text", MASKED)
def test_values_after_a_secret_name_are_masked(text: str) -> None:
    assert masked(text) == MASKED[text]
    assert masked(masked(text)) == masked(text)


def test_names_of_secrets_are_recognized_as_whole_words() -> None:
    assert [name for name in MASKED_NAMES.split() if not is_secret_name(name)] == []
    assert [name for name in OTHER_NAMES.split() if is_secret_name(name)] == []
    for form in ("{}: 1234", "{}=1234&a=1", '{{"{}": "1234"}}'):
        assert [name for name in MASKED_NAMES.split() if "1234" in masked(form.format(name))] == []
        assert [name for name in OTHER_NAMES.split() if "1234" not in masked(form.format(name))] == []


@pytest.mark.parametrize(
    "text",
    [
        "KeyError: 'items'",
        "HTTP/1.1,200,  0.17,      4,/,0",
        "X-Shop: 7",
        "keep-alive",
        "unknown key 'a': b",
        "unknown key 'auth': expected one of",
        'ignore = ["token", "id"]',
        "run auth:app",
        "axes.session: no server uses it",
        "GET http://127.0.0.1:8000/session: ServerDisconnectedError",
        "http://127.0.0.1:8000/a@b",
        "if token == other",
        "200 with 9 bytes 'my token: ***' instead of 200 with 9 bytes 'my token: ***'",
    ],
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


@pytest.mark.parametrize("quote", [last_line, last_error], ids=["line", "error"])
def test_text_is_masked_before_it_is_shortened(quote: Callable[[str], str]) -> None:
    expanded("${UNIT_TOKEN}", "key")
    for length in range(LONGEST_ERROR - 40, LONGEST_QUOTE + 1):
        text = f"Traceback (most recent call last):\n  File\n{'x' * length}{VALUE}"
        assert VALUE[:4] not in quote(text)


def test_string_literals_in_source_code_are_masked_and_other_code_is_not() -> None:
    code = 'get(url, headers={"X-Auth": "1234"}, key=len, session=Session())'
    assert made_legible(Frames(source=[code])).source == [code.replace("1234", "***")]


def test_a_difference_that_is_masked_is_named() -> None:
    one, other = ({"id": 1, "token": "a", "pwd": value} for value in ("b", "c"))
    assert masked_difference(json.dumps(one), json.dumps(other)) == "pwd"
    assert masked_difference("http://ann:1@a/", "http://ann:2@a/") == "a password"
    assert masked_difference("id=1&token=2", "id=2&token=3") == masked_difference("a", "a") == ""


def test_placeholders_of_a_path_are_not_masked() -> None:
    assert masked_template("/a?key={key}&token=${TOKEN}&session=1&b=1") == "/a?key={key}&token=${TOKEN}&session=***&b=1"


LONG = (
    "a",
    "key",
    "token:",
    "'key",
    "'token: a",
    'key" ',
    "key=(",
    r"\"key\":\"",
    '"key"\r\n',
    'key" value=',
    "://a:",
    "-",
)


@pytest.mark.parametrize("text", [part * (150_000 // len(part)) for part in LONG], ids=LONG)
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
