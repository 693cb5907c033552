"""The table [load]: mixes of requests, forms, pauses, arrivals and streams, and what they can't be combined with."""

import json
import re
from collections.abc import Callable
from email import message_from_bytes, policy
from pathlib import Path

import pytest
from command import invoke

from common.errors import BadInputError
from under_siege.load import DRIVERS
from under_siege.load.request import Load, MixedRequest
from under_siege.load.tool import LoadSpec
from under_siege.suite.suite import Suite
from under_siege.suite.suite_file import read_suite

FILE = "requests.jsonl"
MIX = (
    '{"path": "/a?x=1", "body": {"n": 5}, "weight": 3}\n{"path": "/b", "body": "b", "headers": {"x-shop": "7"}}\n\n'
    '{"path": "/c", "status": 404, "expected": {"n": 1}}\n'
)
STREAM, LOCUST, FORM = 'stream = "sse"\n', 'tool = "locust"\n', 'form = { file = "@upload.bin", note = "@@x" }\n'


@pytest.fixture
def suite_with(tmp_path: Path) -> Callable[..., Suite]:
    """Return a function that reads a suite with these keys of [load] and this file of requests."""

    def read(keys: str, requests: str = MIX) -> Suite:
        (tmp_path / FILE).write_text(requests)
        (tmp_path / "upload.bin").write_bytes(b"\0\n\xff\n")
        path = tmp_path / "suite.toml"
        path.write_text(f'[load]\n{keys}\n[ping]\npath = "/ping"\n[servers.one]\ncommand = "serve {{port}}"\n')
        return read_suite(path)

    return read


def mixed(keys: str = "") -> str:
    return f'requests_file = "{FILE}"\n{keys}'


def test_each_request_of_a_mix_has_its_method_body_status_and_weight_and_the_headers_of_the_load(suite_with) -> None:
    first, second, third = suite_with(mixed('tool = "wrk"\nheaders = { X-Shop = "1", X-Kept = "yes" }')).load.mix
    assert [(one.path, one.request.method, one.request.body) for one in (first, second, third)] == [
        ("/a?x=1", "POST", b'{"n": 5}'),
        ("/b", "POST", b"b"),
        ("/c", "GET", b""),
    ]
    assert [one.weight for one in (first, second, third)] == [3, 1, 1]
    assert third.status == 404
    assert {("X-Shop", "1"), ("X-Kept", "yes")} <= {*first.request.headers}
    assert {("X-Kept", "yes"), ("x-shop", "7")} <= {*second.request.headers}
    assert ("X-Shop", "1") not in second.request.headers


def test_siege_gets_the_requests_in_the_order_of_the_request_file(suite_with) -> None:
    load = suite_with(mixed('order = "file"')).load
    spec = LoadSpec(load, 1, 1.0, "http://here/", order=tuple(load.order(7)))
    urls = str(DRIVERS["siege"].files(spec)["urls.txt"]).splitlines()
    assert [url.split()[0] for url in urls] == [*["http://here/a?x=1"] * 3, "http://here/b", "http://here/c"]


def test_the_random_order_of_requests_is_set_by_the_seed_and_differs_between_rounds() -> None:
    load = Load(mix=(MixedRequest("/a"), MixedRequest("/b", weight=9)))
    assert load.order(1) == load.order(1) != load.order(2)
    assert load.order(1, 1) == load.order(1, 1) != load.order(1, 2)
    assert [load.order(1, round_).count(1) for round_ in range(5)] == [900] * 5


def test_what_is_sent_is_described(suite_with) -> None:
    described = [suite_with(keys).load.described() for keys in (mixed(), mixed('order = "file"'), 'body = "abc"')]
    assert "3 different requests" in described[0]
    assert len({*described}) == 3
    assert "POST with 3 bytes" in described[2]


def test_a_form_becomes_the_body_with_the_bytes_of_its_file(suite_with) -> None:
    request = suite_with(FORM).load.request
    (kind,) = [value for name, value in request.headers if name.lower() == "content-type"]
    form = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + request.body, policy=policy.HTTP)
    file, note = form.iter_parts()
    assert (request.method, form.get_content_type()) == ("POST", "multipart/form-data")
    assert (file.get_filename(), file.get_payload(decode=True)) == ("upload.bin", b"\0\n\xff\n")
    assert (note.get_filename(), note.get_payload(decode=True)) == (None, b"@x")


SETUP = """
path = "/me/{id}?n={n}"
headers = { Authorization = "Bearer {data.token}", X-Shop = "7" }
[[load.setup]]
method = "POST"
path = "/login"
body = "user=ann&password=${SHOP_WORD}"
[[load.setup]]
path = "/start/{user}"
headers = { X-Token = "{data.token}" }
status = 204
"""


def test_a_setup_has_its_requests_with_encoded_variables_and_pings_have_no_values_of_users(
    suite_with, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_WORD", "sesame & 7+")
    suite = suite_with(SETUP)
    first, second = suite.load.setup
    assert (first.path, first.status, first.request.method) == ("/login", None, "POST")
    assert first.request.body == b"user=ann&password=sesame+%26+7%2B"
    assert (second.path, second.status) == ("/start/{user}", 204)
    assert second.request.headers == (("X-Token", "{data.token}"),)
    assert suite.ping.headers == (("X-Shop", "7"),)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('path = "/{id}"', "{id} to be an axis"),
        ('[[load.setup]]\nmethod = "POST"', "load.setup[0].path is missing"),
        ('[[load.setup]]\npath = "/a"\nweight = 3', "load.setup[0] has an unknown key 'weight'"),
        ('[[load.setup]]\npath = "/a"\nbody = "x"\nmethod = "GET"', "load.setup[0].body: a GET has no body"),
        ('path = "/{n}"\ntool = "wrk"', ""),
    ],
)
def test_a_wrong_setup_or_placeholder_causes_a_one_line_error(keys: str, said: str, suite_with) -> None:
    if not said:
        assert suite_with(keys).load.path
        return
    with pytest.raises(BadInputError, match=re.escape(said)):
        suite_with(keys)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('"a=1&b[0]=x%20y"', "application/x-www-form-urlencoded"),
        ('"""{"id": {n}}"""', "application/json"),
        ('"a = 1"', "application/octet-stream"),
        ('"a=1"\ncontent_type = "text/plain"', "text/plain"),
        ('"a=1"\nheaders = { content-type = "text/x" }', "text/x"),
    ],
)
def test_the_content_type_follows_from_the_body(body: str, kind: str, suite_with) -> None:
    assert suite_with(f"method = 'POST'\nbody = {body}").load.request.content_type == kind


def test_the_number_of_locust_workers_is_the_number_of_threads(suite_with) -> None:
    assert suite_with(f"{LOCUST}locust_workers = 3").load.threads == 3


WRONG = {  # keys of [load], and the words of the error that matter
    FORM + 'body = "x"': "remove body",
    FORM + 'content_type = "text/plain"': "content_type",
    FORM + 'method = "GET"': "GET",
    'form = { file = "@gone.bin" }': "load.form.file",
    mixed('path = "/a"'): "remove path",
    mixed('method = "PUT"'): "remove",
    mixed('order = "reverse"'): "random, file",
    "locust_workers = 3": 'tool = "locust"',
    LOCUST + "locust_workers = 3\nthreads = 2": "combined",
    LOCUST + "locust_workers = 0": "load.locust_workers",
    STREAM + 'events = "soon"': "load.events",
    STREAM + "events = 0": "load.events",
    STREAM
    + 'first = "choices[0"': "load.first = 'choices[0': expected a path such as choices.0.delta.content, or a reg",
    STREAM + "first = '/(/'": "load.first = '/(/': expected a regular expression between slashes",
    'first = "n"': "load.first needs load.stream: sse, lines or chunks",
    STREAM + 'task = "primes"': "stream",
}


@pytest.mark.parametrize("keys", WRONG)
def test_wrong_keys_of_the_load_cause_a_one_line_error(keys: str, suite_with) -> None:
    with pytest.raises(BadInputError) as error:
        suite_with(keys)
    assert WRONG[keys] in str(error.value)
    assert str(error.value).isprintable()


WRONG_REQUESTS = {
    "": "0 requests",
    "{'path': '/'}": "line 1",
    "[1]": "line 1",
    "{}": "request.path",
    json.dumps({"path": "/a b"}): "request.path",
    json.dumps({"path": "/", "wait": 1}): "wait",
    json.dumps({"path": "/", "weight": 0}): "weight",
    json.dumps({"path": "/", "method": "GET", "body": "a"}): "request.body",
    json.dumps({"path": "/", "headers": {"A": "b\r\nC: d"}}): "without line breaks",
    json.dumps({"path": "/", "headers": {"Connection": "close"}}): "request.headers.Connection",
    json.dumps({"path": "/", "status": 99}): "status",
    json.dumps({"path": "/\x1b[31m"}): "request.path",
}


@pytest.mark.parametrize("line", WRONG_REQUESTS)
def test_a_wrong_line_of_a_request_file_causes_a_one_line_error(line: str, suite_with) -> None:
    with pytest.raises(BadInputError) as error:
        suite_with(mixed(), f"{line}\n")
    assert WRONG_REQUESTS[line] in str(error.value)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (("--pause", "soon"), "--pause"),
        (("--pause", "2s-1s"), "--pause"),
        (("--arrivals", "20"), "--arrivals"),
        (("--arrivals", "20/s", "--pause", "1s"), "remove --pause"),
        (("--arrivals", "20/s", "--users", "3"), "remove --users"),
    ],
)
def test_an_impossible_pause_or_rate_causes_a_one_line_error(words: tuple[str, ...], word: str, tmp_path: Path) -> None:
    ran = invoke("run", "2", *words, folder=tmp_path)
    assert (ran.returncode, ran.stderr.count("\n"), word in ran.stderr) == (2, 1, True), ran.stderr
