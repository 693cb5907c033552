"""suites/aiohttp: its checks detect servers that skip the database or send other rows to the load tool."""

import re
import shutil
from pathlib import Path

import pytest
from bench_runs import run_once
from conftest import ROOT
from load_tool_checks import needed

from under_siege.record.record import Record

SUITE = """
title = "Small"
[load]
tool = "ab"
path = "/orm/updates/5"
users = 4
requests = 80
[expect]
body = "any"
check = "{python} check.py {url} {postgresql} {answers} {bytes}"
[ping]
path = "/plaintext"
ready_within = "120s" # on a busy machine, the imports take long
[axes]
aiohttp = "VERSION"
[servers.least]
command = "{python} least.py {host} {port} {postgresql}"
[servers.honest]
command = "{python} app.py {host} {port} {postgresql}"
headers = { X-Served-By = "aiohttp {aiohttp}, aiohttp._http_parser, asyncio.unix_events" }
environment = { AIOHTTP = "{aiohttp}" }
[servers.dishonest]
command = "{python} dishonest.py {host} {port} {postgresql}"
"""
# This server returns new numbers without updating the database.
DISHONEST = """
import random, runpy
from orm import Orm

async def update(self, count):
    return [{"id": number, "randomNumber": 1} for number in random.sample(range(1, 10_000), count)]

Orm.update = update
runpy.run_path("app.py")
"""


# This server queries the database, but returns other numbers to wrk, which sends no User-Agent header.
LIAR_TO_WRK = """
import json, runpy
from aiohttp import web

@web.middleware
async def lie(request, handler):
    answer = await handler(request)
    if "User-Agent" not in request.headers:
        answer.text = json.dumps({**json.loads(answer.text), "randomNumber": 1})
    return answer

honest = web.Application
web.Application = lambda: honest(middlewares=[lie])
runpy.run_path("app.py")
"""


# This replaces the ORM in tests that do not use it, because its import takes most of the startup time.
NO_ORM = """
class Orm:
    async def open(self, address):
        pass

    async def close(self):
        pass
"""


def small(tool: str, dishonest: str, folder: Path, changes: dict[str, str], orm: str = "") -> dict[str, Record]:
    """Run the small suite with this load tool and this dishonest server; return the records by server name."""
    aiohttp = pytest.importorskip("aiohttp")
    pytest.importorskip("asyncpg")
    pytest.importorskip("sqlalchemy")
    needed(tool)
    shutil.copytree(ROOT / "suites" / "aiohttp", folder / "small")
    text = SUITE.replace("VERSION", aiohttp.__version__)
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    (folder / "small" / "suite.toml").write_text(text)
    (folder / "small" / "dishonest.py").write_text(dishonest)
    if orm:
        (folder / "small" / "orm.py").write_text(orm)
    result, _ = run_once(folder, "small")
    records = {one.server: one for one in result.records}
    least, honest = records["least"].failure, records["honest"].failure
    if least and least.code == "missing_program":
        pytest.skip(least.message)
    assert [honest, least] == [None, None]
    return records


def test_wrong_rows_sent_only_to_wrk_are_detected(tmp_path: Path) -> None:
    changes = {'"ab"': '"wrk"', "requests = 80": 'time = "1s"', "/orm/updates/5": "/raw/db"}
    records = small("wrk", LIAR_TO_WRK, tmp_path, changes, NO_ORM)
    assert records["dishonest"].failure.code == "wrong_answer"
    assert re.search(r"GET /raw/db returned .*{'id': \d+, 'randomNumber': 1}", records["dishonest"].failure.message)


def test_updates_missing_from_the_database_are_detected(tmp_path: Path) -> None:
    records = small("ab", DISHONEST, tmp_path, {})
    assert [records["honest"].bursts.right, records["least"].bursts.right] == [[80], [80]]
    assert records["honest"].services_cpu_s is not None
    assert records["dishonest"].failure.code == "wrong_answer"
    assert "GET /orm/updates/5 has updated 0 rows" in records["dishonest"].failure.message
