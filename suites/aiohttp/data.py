"""The contents of the two tables when a server starts."""

import asyncpg

ROWS = 10_000
FORTUNES = [
    "fortune: No such file or directory",
    "A computer scientist is someone who fixes things that aren't broken.",
    "After enough decimal places, nobody gives a damn.",
    "A bad random number generator: 1, 1, 1, 1, 1, 4.33e+67, 1, 1, 1",
    "A computer program does what you tell it to do, not what you want it to do.",
    "Emacs is a nice operating system, but I prefer UNIX.",
    "Any program that runs right is obsolete.",
    "A list is only as strong as its weakest link.",
    "Feature: A bug with seniority.",
    "Computers make very fast, very accurate mistakes.",
    '<script>alert("This should not be displayed in a browser alert box.");</script>',
    "フレームワークのベンチマーク",
]
MAKE = """
DROP TABLE IF EXISTS world, fortune;
CREATE TABLE world (id integer PRIMARY KEY, random_number integer NOT NULL);
CREATE TABLE fortune (id integer PRIMARY KEY, message text NOT NULL);
"""


def first_number(row: int) -> int:
    """Return the initial number of a row, which is larger than any number that an update writes."""
    return 10_000 + row


async def fill(address: str) -> None:
    """Create and fill both tables, and replace existing tables."""
    connection = await asyncpg.connect(address)
    await connection.execute(MAKE)
    await connection.copy_records_to_table("world", records=[(n, first_number(n)) for n in range(1, ROWS + 1)])
    await connection.copy_records_to_table("fortune", records=list(enumerate(FORTUNES, 1)))
    await connection.execute("ANALYZE world, fortune")
    await connection.close()
