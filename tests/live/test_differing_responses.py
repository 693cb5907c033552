"""Responses that differ by design: the bench suggests what to ignore, and checks the rest."""

import sys
from pathlib import Path

import pytest
from command import invoke
from scripted_server import write_suite


def test_the_bench_suggests_fields_to_ignore_if_responses_differ(tmp_path: Path) -> None:
    """test_paced_loads.py measures such a server with these fields ignored."""
    write_suite(tmp_path, "/echo")
    ran = invoke("run", "suite.toml", "--rounds", "1", "--time", "1s", folder=tmp_path)
    assert ran.returncode == 1
    assert 'ignore = ["number"]' in ran.stderr


def test_an_ignored_field_that_does_not_exist_causes_a_one_line_error(tmp_path: Path) -> None:
    write_suite(tmp_path, "/echo", more='[expect]\nignore = ["number", "gone"]\n')
    ran = invoke("run", "suite.toml", "--rounds", "1", "--time", "1s", folder=tmp_path)
    assert (ran.returncode, ran.stderr.count("\n"), "'gone'" in ran.stderr) == (2, 1, True), ran.stderr


CACHING = """\
import asyncio, sys
from aiohttp import web
known = []
async def answer(request):
    if request.path == "/ping" or (request.path == "/cached" and known):
        return web.Response(text="right")
    await asyncio.sleep(0.5)
    known.append("right")
    return web.Response(text="right")
app = web.Application()
app.router.add_get("/{path}", answer)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
"""


@pytest.mark.parametrize(("path", "is_noted"), [("/cached", True), ("/computed", False)])
def test_a_warning_says_that_a_cache_may_answer_equal_requests(path: str, is_noted: bool, tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text(CACHING)
    command = f"{sys.executable} serve.py {{port}}"
    tables = f'[load]\npath = "{path}"\nusers = 2\n[ping]\npath = "/ping"\n[servers.one]\ncommand = "{command}"\n'
    (tmp_path / "suite.toml").write_text(tables)
    ran = invoke("run", "suite.toml", "--rounds", "1", "--time", "1s", folder=tmp_path)
    assert ("if a cache answers" in ran.stderr) is is_noted, ran.stderr


def test_what_to_do_about_a_refused_request_of_a_suite_is_said_before_the_load(tmp_path: Path) -> None:
    write_suite(tmp_path, "/status/401")
    ran = invoke("run", "suite.toml", "--rounds", "1", "--time", "1s", folder=tmp_path)
    assert ran.returncode == 1
    assert "[[load.setup]]" in ran.stderr
    assert "[[load.setup]]" in ran.stdout  # in the verdict, too
