"""Serve requests that sleep for a known time: in the event loop, or in a pool of worker processes."""

import argparse
import asyncio
import random
import time
from concurrent.futures import ProcessPoolExecutor

from aiohttp import web

SERVICE_S = 0.05


def sleep(is_random: bool) -> str:
    time.sleep(random.expovariate(1 / SERVICE_S) if is_random else SERVICE_S)
    return "slept"


async def ping(_: web.Request) -> web.Response:
    return web.Response(text="pong")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--workers", type=int, help="number of processes; 0: sleep in the event loop")
    parser.add_argument("--random", action="store_true", help="draw exponentially distributed times")
    options = parser.parse_args()
    pool = ProcessPoolExecutor(options.workers) if options.workers else None

    async def work(_: web.Request) -> web.Response:
        if pool is None:
            return web.Response(text=sleep(options.random))
        loop = asyncio.get_running_loop()
        return web.Response(text=await loop.run_in_executor(pool, sleep, options.random))

    app = web.Application()
    app.add_routes([web.get("/", work), web.get("/ping", ping)])
    web.run_app(app, host=options.host, port=options.port, print=None)
