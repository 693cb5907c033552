"""After each load: are the answers what is in the tables, were the rows read for them, and updated where they say so?

Args: URL of the path, POSTGRESQL, how many answers were given, and how many bytes. Its last line says what is wrong.
"""

import asyncio
import json
import re
import sys
import time
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any, NoReturn

import asyncpg
from data import FORTUNES, ROWS, first_number
from page import page

URL, ADDRESS, ANSWERS, BYTES = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
HOST, PATH = URL.split("/", 3)[2], "/" + URL.split("/", 3)[3]
ASKED = 4  # times, for rows that are drawn at random
FEWEST = 0.5  # of the rows that so many updates of random rows reach, or that were to be read
# Within which PostgreSQL tells what was read: an idle connection does it after 10, and one in use once a second.
TOLD_S, LOOK_S, AT_A_TIME = 15, 0.2, 8
LENGTH = 0.25  # of the answers' mean length, which differs with the numbers in them
READ = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables"


def asked() -> bytes:
    """As wrk asks, without any header that would tell us from it."""
    connection = HTTPConnection(HOST)
    connection.putrequest("GET", PATH, skip_accept_encoding=True)
    connection.endheaders()
    with closing(connection), connection.getresponse() as answer:
        if answer.status != HTTPStatus.OK:
            wrong(f"gives status {answer.status}")
        return answer.read()


def wrong(what: str) -> NoReturn:
    sys.exit(f"GET {PATH} {what}")


async def check_read(connection: asyncpg.Connection, rows: int) -> None:
    """Whether so many rows were read for each answer."""
    fewest, until_s, ours = FEWEST * ANSWERS * rows, time.monotonic() + TOLD_S, 0
    while (read := (await connection.fetchval(READ) or 0) - ours) < fewest:
        if time.monotonic() > until_s:
            wrong(f"has read {max(0, read)} rows, where {ANSWERS} answers should have read {ANSWERS * rows}")
        await asyncio.gather(asyncio.sleep(LOOK_S), *(asyncio.to_thread(asked) for _ in range(AT_A_TIME)))
        ours += AT_A_TIME * rows


def check_length(bodies: list[bytes]) -> None:
    """Whether answers under load were as long as those that are read here."""
    if BYTES and ANSWERS:
        mean, own = int(BYTES) / ANSWERS, sum(map(len, bodies)) / len(bodies)
        if abs(mean - own) > LENGTH * own:
            wrong(f"gave {mean:.1f} bytes on the average under load, and {own:.1f} now")


async def check_rows(connection: asyncpg.Connection, told: Any) -> None:
    """Whether those that were just given are in the table, and as many as were asked for."""
    rows = [told] if isinstance(told, dict) else told
    there = {
        row["id"]: row["random_number"]
        for row in await connection.fetch("SELECT * FROM world WHERE id = ANY($1)", [row["id"] for row in rows])
    }
    if len(there) != rows_of(PATH) or there != {row["id"]: row["randomNumber"] for row in rows}:
        wrong(
            f"gives {rows[:2]} of {len(rows)}, where {rows_of(PATH)} are asked for "
            f"and the table has {list(there.items())[:2]}"
        )


def rows_of(path: str) -> int:
    """How many an answer takes; 0 where it needs no database."""
    last = path.rpartition("/")[2]
    return int(last) if last.isdecimal() else {"db": 1, "fortunes": len(FORTUNES)}.get(last, 0)


async def main() -> None:
    connection = await asyncpg.connect(ADDRESS)
    updates = re.fullmatch(r"/\w+/updates/(\d+)", PATH)
    if updates:
        changed = await connection.fetchval(
            "SELECT count(*) FROM world WHERE random_number <> $1 + id", first_number(0)
        )
        expected = ROWS * (1 - (1 - int(updates[1]) / ROWS) ** ANSWERS)
        if changed < FEWEST * expected:
            wrong(f"has updated {changed} rows, where {ANSWERS} answers should have reached some {expected:.0f}")
    if rows := rows_of(PATH):
        await check_read(connection, rows)
    bodies = [await asyncio.to_thread(asked) for _ in range(ASKED)]
    check_length(bodies)
    body = bodies[-1].decode()
    exact = {"/plaintext": "Hello, World!", "/json": json.dumps({"message": "Hello, World!"})}
    if PATH in exact or PATH.endswith("fortunes"):
        if body != exact.get(PATH, page(enumerate(FORTUNES, 1))):
            wrong(f"gives {body[:80]!r}")
        return
    if len(set(bodies)) == 1:
        wrong(f"gives the same rows {ASKED} times, where they are to be drawn at random")
    await check_rows(connection, json.loads(body))


asyncio.run(main())
