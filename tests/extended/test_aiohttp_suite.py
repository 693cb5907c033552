"""suites/aiohttp: its checks detect servers that skip the database."""

import shutil
from pathlib import Path

import pytest
from bench_runs import run_once
from conftest import ROOT
from load_tool_checks import needed

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


def test_updates_missing_from_the_database_are_detected(tmp_path: Path) -> None:
    aiohttp = pytest.importorskip("aiohttp")
    pytest.importorskip("asyncpg")
    pytest.importorskip("sqlalchemy")
    needed("ab")
    shutil.copytree(ROOT / "suites" / "aiohttp", tmp_path / "small")
    (tmp_path / "small" / "suite.toml").write_text(SUITE.replace("VERSION", aiohttp.__version__))
    (tmp_path / "small" / "dishonest.py").write_text(DISHONEST)
    result, _ = run_once(tmp_path, "small")
    records = {one.server: one for one in result.records}
    least, honest = records["least"].failure, records["honest"].failure
    if least and least.code == "missing_program":
        pytest.skip(least.message)
    assert [honest, least] == [None, None]
    assert [records["honest"].bursts.right, records["least"].bursts.right] == [[80], [80]]
    assert records["honest"].services_cpu_s is not None
    assert records["dishonest"].failure.code == "wrong_answer"
    assert "has updated 0 rows" in records["dishonest"].failure.message
