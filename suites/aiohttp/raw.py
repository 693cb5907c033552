"""Database access through asyncpg alone."""

import random

import asyncpg
from data import ROWS

READ = "SELECT id, random_number FROM world WHERE id = $1"
POOL = 16  # connections


class Raw:
    """The queries of the benchmark."""

    async def open(self, address: str) -> None:
        self.pool = await asyncpg.create_pool(address, min_size=POOL, max_size=POOL)

    async def close(self) -> None:
        await self.pool.close()

    async def row(self) -> dict[str, int]:
        async with self.pool.acquire() as connection:
            return as_json(await connection.fetchrow(READ, random.randint(1, ROWS)))

    async def rows(self, count: int) -> list[dict[str, int]]:
        async with self.pool.acquire() as connection:
            read = await connection.prepare(READ)
            return [as_json(await read.fetchrow(number)) for number in random.sample(range(1, ROWS + 1), count)]

    async def update(self, count: int) -> list[dict[str, int]]:
        async with self.pool.acquire() as connection:
            read = await connection.prepare(READ)
            numbers = sorted(
                random.sample(range(1, ROWS + 1), count)
            )  # sorted, because otherwise two updates could deadlock
            for number in numbers:
                await read.fetchrow(number)
            new = [(number, random.randint(1, ROWS)) for number in numbers]
            await connection.executemany("UPDATE world SET random_number = $2 WHERE id = $1", new)
            return [{"id": number, "randomNumber": value} for number, value in new]

    async def fortunes(self) -> list[tuple[int, str]]:
        async with self.pool.acquire() as connection:
            return [tuple(row) for row in await connection.fetch("SELECT id, message FROM fortune")]


def as_json(row: asyncpg.Record) -> dict[str, int]:
    return {"id": row["id"], "randomNumber": row["random_number"]}
