"""After each load: are the answers what is in the tables, and are the rows updated that were said to be?

Args: URL of the path, POSTGRESQL, and how many answers were given. Its last line says what is wrong.
"""

import asyncio
import json
import re
import sys
import urllib.request

import asyncpg
from data import FORTUNES, ROWS, first_number
from page import page

URL, ADDRESS, ANSWERS = sys.argv[1], sys.argv[2], int(sys.argv[3])
PATH = "/" + URL.split("/", 3)[3]
ASKED = 4  # times, for rows that are drawn at random
FEWEST = 0.5  # of the rows that so many updates of random rows reach


def asked() -> bytes:
    with urllib.request.urlopen(URL) as answer:
        return answer.read()


def wrong(what: str) -> None:
    sys.exit(f"GET {PATH} {what}")


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
    body = (await asyncio.to_thread(asked)).decode()
    exact = {"/plaintext": "Hello, World!", "/json": json.dumps({"message": "Hello, World!"})}
    if PATH in exact or PATH.endswith("fortunes"):
        if body != exact.get(PATH, page(enumerate(FORTUNES, 1))):
            wrong(f"gives {body[:80]!r}")
        return
    if len({await asyncio.to_thread(asked) for _ in range(ASKED)}) == 1:
        wrong(f"gives the same rows {ASKED} times, where they are to be drawn at random")
    body = (await asyncio.to_thread(asked)).decode()
    told = json.loads(body)
    rows = [told] if isinstance(told, dict) else told
    count = 1 if PATH.endswith("db") else int(PATH.rpartition("/")[2])
    there = {
        row["id"]: row["random_number"]
        for row in await connection.fetch("SELECT * FROM world WHERE id = ANY($1)", [row["id"] for row in rows])
    }
    if len(there) != count or there != {row["id"]: row["randomNumber"] for row in rows}:
        wrong(
            f"gives {rows[:2]} of {len(rows)}, where {count} are asked for and the table has {list(there.items())[:2]}"
        )


asyncio.run(main())
