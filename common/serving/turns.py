"""Turns on an event loop, where more have come than may wait: between two that begin it hears who is too much."""

import asyncio
from collections import deque
from collections.abc import Callable


class Turns:
    """In each turn of the loop one begins, in the order in which they came, while there is a crowd.

    Else all that were heard together begin together, as on any loop: tasks that hold it are done one after the other
    before anybody else is heard. In a crowd nobody could be told so that they are too much.
    """

    def __init__(self, is_crowded: Callable[[], bool]) -> None:
        self._is_crowded = is_crowded
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def mine(self) -> None:
        """Returns when it has come."""
        if not self._waiting and not self._is_crowded():
            return
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
