"""suites/aiohttp: its checks detect servers that skip the database, and its tables show only real differences."""

import io
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from bench_runs import run_once
from conftest import ROOT
from load_tool_checks import needed
from simulated_record import bare_record, record_of, result_of

from common.errors import BadInputError
from under_siege.judge.ranking import summarize
from under_siege.judge.sweep import across_of
from under_siege.record.record import Machine, Record
from under_siege.report import formatted
from under_siege.run.matrix import across_view
from under_siege.show.formats.table import renderable

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
[axes]
aiohttp = "VERSION"
[servers.least] # the first server, which calibrates the task: it starts three times as fast as the others
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


@pytest.mark.slow
def test_wrong_rows_sent_only_to_wrk_are_detected(tmp_path: Path) -> None:
    changes = {'"ab"': '"wrk"', "requests = 80": 'time = "1s"', "/orm/updates/5": "/raw/db"}
    records = small("wrk", LIAR_TO_WRK, tmp_path, changes, NO_ORM)
    assert records["dishonest"].failure.code == "wrong_answer"
    assert re.search(r"GET /raw/db gives \[{'id': \d+, 'randomNumber': 1}", records["dishonest"].failure.message)


def test_updates_missing_from_the_database_are_detected(tmp_path: Path) -> None:
    records = small("ab", DISHONEST, tmp_path, {})
    assert [records["honest"].bursts.right, records["least"].bursts.right] == [[80], [80]]
    assert records["honest"].services_cpu_s is not None
    assert records["dishonest"].failure.code == "wrong_answer"
    assert "GET /orm/updates/5 has updated 0 rows" in records["dishonest"].failure.message


def versions(faster: float, again: float = 0.765, **changes: Any) -> list[Record]:
    """Return records of a version that was measured twice, and of one that is `faster` times as fast."""
    found = [bare_record(round_) for round_ in (1, 2, 3)]
    for version, speed in (("3.10.1", 0.75 * faster), ("3.8.6", 0.75), ("3.8.6.0", again)):
        for round_, noise in ((1, 0.98), (2, 1.0), (3, 1.01)):
            parameters = {"aiohttp": version}
            found.append(record_of("1_x", round_, speed=speed * noise, parameters=parameters, **changes))
    return found


def test_differences_between_versions_are_shown_if_they_exceed_the_noise() -> None:
    across = across_of(summarize(result_of(versions(1.25))), "aiohttp")
    assert across.values == ["3.8.6", "3.8.6.0", "3.10.1"]
    ((_, cells),) = across.rows.items()
    assert cells["3.10.1"].differences["rate_per_s"] == pytest.approx(0.25, abs=0.02)
    assert cells["3.8.6.0"].differences == {"rate_per_s": None, "cpu_s_per_transaction": None}
    assert cells["3.8.6"].differences["rate_per_s"] is None
    assert across.noise["rate_per_s"] == pytest.approx(0.02, abs=0.01)


def test_cases_on_a_busy_machine_do_not_increase_the_noise_of_other_cases() -> None:
    """Differences between cases on a busy machine count as noise only if no other identical cases were measured."""
    busy = Machine(total_s=8, busy_s=8, steal_s=0)
    restless = versions(1.25, again=0.4, machine=busy, users=20)[3:]
    across = across_of(summarize(result_of([*versions(1.25), *restless])), "aiohttp")
    assert across.noise["rate_per_s"] == pytest.approx(0.02, abs=0.01)
    assert across_of(summarize(result_of([*versions(1)[:3], *restless])), "aiohttp").noise["rate_per_s"] > 0.5


def test_differences_between_versions_are_blank_if_they_do_not_exceed_the_noise() -> None:
    ((_, cells),) = across_of(summarize(result_of(versions(1.02))), "aiohttp").rows.items()
    assert {value: cell.differences["rate_per_s"] for value, cell in cells.items()} == dict.fromkeys(cells)


def test_the_table_that_compares_axis_values_reports_noise_and_requires_two_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from rich.console import Console

    result = result_of(versions(1.25))
    Console(width=136).print(renderable(across_view(summarize(result), "aiohttp")))
    printed = capsys.readouterr().out
    assert re.search(r"\d  +\+2[45] %", printed)
    assert "differences are relative to aiohttp 3.8.6; blank" in printed
    assert "two measurements of the same version differed by up to" in printed
    assert "1_x" in formatted(result, "table")
    with pytest.raises(BadInputError, match="has fewer than two values of 'size'; use one of "):
        across_of(summarize(result), "size")


@pytest.mark.parametrize(("width", "tables"), [(60, [2, 3]), (80, [1, 2]), (140, [1, 1])])
def test_narrow_terminals_split_the_table_instead_of_truncating_figures(width: int, tables: list[int]) -> None:
    from rich.console import Console

    console = Console(width=width, record=True, file=io.StringIO())
    shown = renderable(across_view(summarize(result_of(versions(1.25))), "aiohttp"))
    console.print(shown)
    printed = console.export_text()
    assert "…" not in printed
    assert [
        len(re.findall(f"(?m)^{title}  ", printed)) for title in ("transactions per second", "CPU per transaction")
    ] == tables
    assert re.search(r"\d  +\+2[45] %", printed)
