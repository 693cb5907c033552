"""The aiohttp server: python app.py HOST PORT POSTGRESQL. X-Served-By names aiohttp's version, parser and loop."""

import asyncio
import os
import sys

import aiohttp
import data
from aiohttp import http_parser, web
from orm import Orm
from page import page
from raw import Raw

HOST, PORT, ADDRESS = sys.argv[1:4]
ASKED_FOR = os.environ.get("AIOHTTP", "")  # 3.14.5.0 is the same as 3.14.5
VERSION = ASKED_FOR if ASKED_FOR.removesuffix(".0") == aiohttp.__version__ else aiohttp.__version__
PARSER = http_parser.HttpRequestParser.__module__
STORES = {"raw": Raw(), "orm": Orm()}


async def hello_json(_: web.Request) -> web.Response:
    return web.json_response({"message": "Hello, World!"})


async def hello(_: web.Request) -> web.Response:
    return web.Response(text="Hello, World!")


async def db(request: web.Request) -> web.Response:
    return web.json_response(await STORES[request.match_info["store"]].row())


async def queries(request: web.Request) -> web.Response:
    return web.json_response(await STORES[request.match_info["store"]].rows(int(request.match_info["count"])))


async def updates(request: web.Request) -> web.Response:
    return web.json_response(await STORES[request.match_info["store"]].update(int(request.match_info["count"])))


async def fortunes(request: web.Request) -> web.Response:
    return web.Response(text=page(await STORES[request.match_info["store"]].fortunes()), content_type="text/html")


async def sign(_: web.Request, response: web.StreamResponse) -> None:
    loop = type(asyncio.get_running_loop()).__module__
    response.headers["X-Served-By"] = f"aiohttp {VERSION}, {PARSER}, {loop}"


async def with_stores(_: web.Application):  # type: ignore[no-untyped-def]
    await data.fill(ADDRESS)
    for store in STORES.values():
        await store.open(ADDRESS)
    yield
    for store in STORES.values():
        await store.close()


app = web.Application()
app.cleanup_ctx.append(with_stores)
app.on_response_prepare.append(sign)
app.router.add_get("/json", hello_json)
app.router.add_get("/plaintext", hello)
app.router.add_get("/{store:raw|orm}/db", db)
app.router.add_get("/{store:raw|orm}/fortunes", fortunes)
app.router.add_get(r"/{store:raw|orm}/queries/{count:\d+}", queries)
app.router.add_get(r"/{store:raw|orm}/updates/{count:\d+}", updates)
web.run_app(app, host=HOST, port=int(PORT), access_log=None, print=None)
