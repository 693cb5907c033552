"""Check the database after each load: were rows read and updated, and do responses match the tables?

usage: check.py URL POSTGRESQL ANSWERS BYTES

ANSWERS and BYTES are the numbers of responses and response bytes during the load. If there is a fault, the
last line of the output describes it.
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
REQUESTS = 4  # enough to check whether rows are drawn at random
FEWEST = 0.5  # minimum share of the expected reads or updates
# PostgreSQL counts reads with a delay: 1 s for a busy connection, 10 s for an idle connection.
TIMEOUT_S, POLL_S, AT_A_TIME = 15, 0.2, 8
LENGTH = 0.25  # tolerance as a share of the mean length, which varies with the numbers in the responses
READ = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables"


def fetch() -> bytes:
    """Send a request like those of wrk, and return the body of the response."""
    connection = HTTPConnection(HOST)
    connection.putrequest("GET", PATH, skip_accept_encoding=True)
    connection.endheaders()
    with closing(connection), connection.getresponse() as answer:
        if answer.status != HTTPStatus.OK:
            fail(f"returned status {answer.status}")
        return answer.read()


def fail(what: str) -> NoReturn:
    sys.exit(f"GET {PATH} {what}")


async def check_read(connection: asyncpg.Connection, rows: int) -> None:
    """Fail if far fewer than `rows` rows were read for each response."""
    fewest, until_s, ours = FEWEST * ANSWERS * rows, time.monotonic() + TIMEOUT_S, 0
    while (read := (await connection.fetchval(READ) or 0) - ours) < fewest:
        if time.monotonic() > until_s:
            fail(f"has read {max(0, read)} rows, but {ANSWERS} responses require {ANSWERS * rows}")
        await asyncio.gather(asyncio.sleep(POLL_S), *(asyncio.to_thread(fetch) for _ in range(AT_A_TIME)))
        ours += AT_A_TIME * rows


def check_length(bodies: list[bytes]) -> None:
    """Fail unless the bodies under load were about as long as these bodies."""
    if BYTES and ANSWERS:
        mean, own = int(BYTES) / ANSWERS, sum(map(len, bodies)) / len(bodies)
        if abs(mean - own) > LENGTH * own:
            fail(f"returned {mean:.1f} bytes on average under load, but {own:.1f} bytes now")


async def check_rows(connection: asyncpg.Connection, answer: Any) -> None:
    """Fail unless the response has as many rows as requested, and the table has the same rows."""
    rows = [answer] if isinstance(answer, dict) else answer
    there = {
        row["id"]: row["random_number"]
        for row in await connection.fetch("SELECT * FROM world WHERE id = ANY($1)", [row["id"] for row in rows])
    }
    if len(there) != rows_of(PATH) or there != {row["id"]: row["randomNumber"] for row in rows}:
        fail(
            f"returned {len(rows)} rows, starting with {rows[:2]}; {rows_of(PATH)} were requested, "
            f"and the table has {list(there.items())[:2]}"
        )


def rows_of(path: str) -> int:
    """Return the number of rows in a response to this path, or 0 if the path needs no database."""
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
            fail(f"has updated {changed} rows, but {ANSWERS} responses should have updated about {expected:.0f}")
    if rows := rows_of(PATH):
        await check_read(connection, rows)
    bodies = [await asyncio.to_thread(fetch) for _ in range(REQUESTS)]
    check_length(bodies)
    body = bodies[-1].decode()
    exact = {"/plaintext": "Hello, World!", "/json": json.dumps({"message": "Hello, World!"})}
    if PATH in exact or PATH.endswith("fortunes"):
        if body != exact.get(PATH, page(enumerate(FORTUNES, 1))):
            fail(f"returned {body[:80]!r}")
        return
    if len(set(bodies)) == 1:
        fail(f"returned the same rows {REQUESTS} times, but rows should be drawn at random")
    await check_rows(connection, json.loads(body))


asyncio.run(main())
