"""Tornado with `flush`: the handler writes each event and waits until the connection has taken it."""

import asyncio
import sys

from events import EVENTS, WAIT_S, make_event
from tornado.web import Application, RequestHandler


class Health(RequestHandler):
    def get(self) -> None:
        self.write("ok")


class Stream(RequestHandler):
    async def get(self, kind: str) -> None:
        self.set_header("Content-Type", "text/event-stream")
        for number in range(EVENTS):
            event = make_event(kind, number)
            await asyncio.sleep(WAIT_S[kind])
            self.write(event)
            await self.flush()


async def main(host: str, port: int) -> None:
    Application([("/health", Health), ("/(.+)", Stream)]).listen(port, host)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
