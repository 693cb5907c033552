"""The strategies of 3_async_threadexecutor and 4_async_processexecutor, from Tornado's documentation."""

import asyncio
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import tornado.ioloop
import tornado.web
from primes import primes


class MainHandler(tornado.web.RequestHandler):
    async def get(self) -> None:
        self.write(await tornado.ioloop.IOLoop.current().run_in_executor(pool, primes))


class PingHandler(tornado.web.RequestHandler):
    def get(self) -> None:
        self.write("pong")


async def main() -> None:
    app = tornado.web.Application([(r"/", MainHandler), (r"/ping", PingHandler)])
    app.listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


if __name__ == "__main__":
    spawn = multiprocessing.get_context("forkserver")
    pool = ThreadPoolExecutor(6) if sys.argv[2] == "threads" else ProcessPoolExecutor(2, spawn)
    asyncio.run(main())
