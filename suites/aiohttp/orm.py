"""Database access through the ORM of SQLAlchemy 2, with asyncpg."""

import random

from data import ROWS
from raw import POOL
from sqlalchemy import select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    pass


class World(Base):
    __tablename__ = "world"
    id: Mapped[int] = mapped_column(primary_key=True)
    random_number: Mapped[int]


class Fortune(Base):
    __tablename__ = "fortune"
    id: Mapped[int] = mapped_column(primary_key=True)
    message: Mapped[str]


class Orm:
    """The queries of the benchmark."""

    async def open(self, address: str) -> None:
        address = address.replace("postgresql://", "postgresql+asyncpg://", 1)
        self.engine = create_async_engine(address, pool_size=POOL, max_overflow=0, pool_timeout=600)
        self.session = async_sessionmaker(self.engine, expire_on_commit=False)

    async def close(self) -> None:
        await self.engine.dispose()

    async def row(self) -> dict[str, int]:
        async with self.session() as session:
            return as_json(await session.get_one(World, random.randint(1, ROWS)))

    async def rows(self, count: int) -> list[dict[str, int]]:
        async with self.session() as session:
            numbers = random.sample(range(1, ROWS + 1), count)
            return [as_json(await session.get_one(World, number)) for number in numbers]

    async def update(self, count: int) -> list[dict[str, int]]:
        async with self.session.begin() as session:
            numbers = sorted(random.sample(range(1, ROWS + 1), count))
            rows = [await session.get_one(World, number) for number in numbers]
            for row in rows:
                row.random_number = random.randint(1, ROWS)
        return [as_json(row) for row in rows]

    async def fortunes(self) -> list[tuple[int, str]]:
        async with self.session() as session:
            return [(row.id, row.message) for row in await session.scalars(select(Fortune))]


def as_json(row: World) -> dict[str, int]:
    return {"id": row.id, "randomNumber": row.random_number}
