"""The strategy of 2_async, from Tornado's documentation."""

import asyncio
import sys

import tornado.web
from primes import primes


class MainHandler(tornado.web.RequestHandler):
    def get(self) -> None:
        self.write(primes())


class PingHandler(tornado.web.RequestHandler):
    def get(self) -> None:
        self.write("pong")


async def main() -> None:
    app = tornado.web.Application([(r"/", MainHandler), (r"/ping", PingHandler)])
    app.listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
