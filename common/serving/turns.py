"""Turns on an event loop: between two requests that begin it hears whoever has come, because a task may hold it."""

import asyncio
from collections import deque


class Turns:
    """In each turn of the loop one begins, in the order in which they came.

    If all began at once, tasks that hold the loop would be done one after the other before anybody else is heard, and
    who is too much could not be told.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def mine(self) -> None:
        """Returns when it has come."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._next)
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # it has not been cancelled
                turn.set_result(None)
                break
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
