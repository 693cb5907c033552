"""A server with one worker that takes exactly 50 ms per request: an M/D/1 queue. Pings do not queue."""

import argparse
import asyncio
import time

from aiohttp import web

SERVICE_S = 0.05
free_s = [0.0]


async def work(_: web.Request) -> web.Response:
    now_s = time.monotonic()
    free_s[0] = max(now_s, free_s[0]) + SERVICE_S
    await asyncio.sleep(free_s[0] - now_s)
    return web.Response(text="done")


async def ping(_: web.Request) -> web.Response:
    return web.Response(text="pong")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, kind in (("--host", str), ("--port", int), ("--task", str)):
        parser.add_argument(name, type=kind)
    options = parser.parse_args()
    app = web.Application()
    app.add_routes([web.get("/", work), web.get("/ping", ping)])
    web.run_app(app, host=options.host, port=options.port, print=None)
