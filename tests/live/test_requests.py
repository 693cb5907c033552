"""Requests other than a plain GET: each load tool sends exactly the request of the suite."""

import asyncio
import shutil
from pathlib import Path

import pytest
from bench_runs import run_once
from command import invoke
from conftest import TESTS
from load_tool_checks import needed

from under_siege.host.programs import isolated_tool
from under_siege.judge.ranking import summarize
from under_siege.load import DRIVERS
from under_siege.load.request import Request
from under_siege.load.tool import LoadSpec
from under_siege.measure.warm_up import _capture
from under_siege.report import formatted

PUT = Request("PUT", (("X-Shop", "7; a='b'"), ("Content-Type", "application/json")), b'{"a": "it\'s \\"1\\" \\\\ %s"}')
ORDER = '/orders?shop=1 7 application/json {"items": 200000, "customer": "acme"}'


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    shutil.copytree(TESTS / "suites/orders", tmp_path / "orders")
    return tmp_path / "orders"


@pytest.mark.parametrize("name", ["siege", "ab", "wrk", "locust", "stressor"])
def test_each_load_tool_sends_method_headers_and_body(name: str) -> None:
    needed(name)

    async def captured() -> bytes:
        with isolated_tool(DRIVERS[name]) as tool:
            requests = 2 if name in ("ab", "stressor") else None
            return (
                await _capture(tool, LoadSpec(2, 1.0, "http://127.0.0.1/", requests=requests, request=PUT))
            ).requests[0]

    first, _, rest = asyncio.run(captured()).partition(b"\r\n")
    lines, _, body = rest.partition(b"\r\n\r\n")
    headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in lines.decode().split("\r\n"))}
    assert first.startswith(b"PUT / HTTP/1.")
    assert (headers["content-type"], headers["x-shop"]) == ("application/json", "7; a='b'")
    assert (body, int(headers["content-length"])) == (PUT.body, len(PUT.body))


@pytest.mark.parametrize(("body", "has_refusal"), [(b"a", False), (b"a\n", True), (b"a\0b", True)])
def test_bodies_that_siege_would_change_are_rejected(body: bytes, has_refusal: bool) -> None:
    refusal = DRIVERS["siege"].refusal(LoadSpec(2, 1.0, "http://127.0.0.1/", request=Request("PUT", (), body)))
    assert ("siege can't send" in refusal) == has_refusal


def test_every_command_sends_only_the_post_request_of_the_suite(orders: Path, tmp_path: Path) -> None:
    result, ran = run_once(tmp_path, "orders", "--time", "1s")
    assert "failed" not in {case.verdict for case in summarize(result).cases}, ran.stdout + ran.stderr
    for words in (
        ("trace", "orders"),
        ("capacity", "orders:one", "--time", "5s"),
        ("drill", "orders:one", "--fault", "leave", "--rounds", "1"),
    ):
        ran = invoke(*words, folder=tmp_path)
        assert ran.returncode in (0, 1, 3), ran.stderr
    assert set((orders / "access.log").read_text().splitlines()) == {ORDER}


def test_the_result_describes_the_request_and_how_responses_are_compared(orders: Path, tmp_path: Path) -> None:
    result, _ = run_once(tmp_path, "orders:one", "--time", "1s")
    assert result.suite.request == "POST with 37 bytes of application/json"
    text = formatted(result, "markdown")
    assert "compared as JSON, not byte for byte, ignoring id, created_at" in text
    assert "POST with 37 bytes of application/json" in text


def test_the_error_names_the_wrong_field_of_a_response(orders: Path, tmp_path: Path) -> None:
    app, suite = orders / "app.py", orders / "suite.toml"
    (orders / "wrong.py").write_text(app.read_text().replace("json.loads(body)", "{'items': 3}"))
    suite.write_text(
        suite.read_text().replace('other]\ncommand = "python app.py', 'other]\ncommand = "python wrong.py')
    )
    result, _ = run_once(tmp_path, "orders", "--time", "1s")
    right, wrong = summarize(result).cases
    assert right.verdict != "failed", right.reasons
    assert wrong.verdict == "failed"
    assert "total is 3 instead of 19999900000" in wrong.reasons[0].message


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", 'ignore = ["id", "created_at"]'),
        ('ignore = ["id", "created_at", "customer.name"]', "customer.name"),
    ],
)
def test_the_output_suggests_fields_to_ignore_and_names_ignored_fields_that_do_not_exist(
    line: str, why: str, orders: Path, tmp_path: Path
) -> None:
    suite = orders / "suite.toml"
    suite.write_text(suite.read_text().replace('ignore = ["id", "created_at"]', line))
    ran = invoke("run", "orders", "--rounds", "1", "--time", "1s", folder=tmp_path)
    assert why in ran.stdout + ran.stderr


def test_chunked_responses_are_accepted(orders: Path, tmp_path: Path) -> None:
    """siege counts the framing of the chunks as part of the response."""
    app, suite = orders / "app.py", orders / "suite.toml"
    text = app.read_text().replace("str(uuid.uuid4())", "'1'").replace("str(datetime.now(UTC))", "'2'")
    text = text.replace('self.send_header("Content-Length", str(len(body)))', "")
    text = text.replace('"Content-Type", "application/json"', '"Transfer-Encoding", "chunked"')
    app.write_text(text.replace("write(body)", 'write(b"%x\\r\\n%s\\r\\n0\\r\\n\\r\\n" % (len(body), body))'))
    suite.write_text(suite.read_text().replace('ignore = ["id", "created_at"]', ""))
    result, _ = run_once(tmp_path, "orders:one", "--time", "1s")
    (case,) = summarize(result).cases
    assert case.verdict != "failed", case.reasons
