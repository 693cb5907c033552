"""Small applications in each framework, as source code. Those that are measured wait, so that a load costs little."""

import venv
from pathlib import Path

DJANGO_APPS = {
    f"config/{kind}.py": "import os\nos.environ.setdefault('DJANGO_SETTINGS_MODULE', 'config.settings')\n"
    f"from django.core.{kind} import get_{kind}_application\napplication = get_{kind}_application()\n"
    for kind in ("asgi", "wsgi")
}
DJANGO = DJANGO_APPS | {
    "config/settings/base.py": "SECRET_KEY = 'x'\nROOT_URLCONF = 'config.urls'\nINSTALLED_APPS = []\n",
    "config/settings/__init__.py": "from .base import *\nALLOWED_HOSTS = ['shop.example']\n",
    "config/urls.py": """\
from django.http import HttpResponse
from django.urls import include, path, re_path
def view(request, **_): return HttpResponse("fine")
shop = [path("items/<int:id>", view), path("report", view)]
urlpatterns = [path("shop/", include(shop)), re_path("^healthz$", view)]
""",
}
FASTAPI = """\
from fastapi import APIRouter, FastAPI
app, router = FastAPI(), APIRouter(prefix="/v1")
@router.get("/items/{number}")
def item(number: int): ...
@router.get("/search")
def search(customer: str): ...
@router.get(path="/report")
def report(): return sum(range(10_000))
@app.get("/api/health", include_in_schema=False)
def health(): ...
app.include_router(router, prefix="/api")
"""
STARLETTE = """\
import asyncio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
async def view(request):
    await asyncio.sleep(0.02)
    return PlainTextResponse("fine")
routes = [Mount("/v1", routes=[Route("/report", view)]), Route("/ping", view)]
app = Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["*.shop.example"])])
"""
FLASK = """\
import time
from flask import Blueprint, Flask
orders = Blueprint("orders", __name__, url_prefix="/v1")
@orders.post("/orders")
def create(): return "fine"
@orders.get("/report")
def report():
    time.sleep(0.02)
    return "fine"
def create_app(settings=None):
    app = Flask(__name__)
    app.register_blueprint(orders)
    return app
"""
BOTTLE = 'import bottle\napp = bottle.Bottle()\n@app.route("/report")\ndef report(): return "fine"\n'
FALCON = """\
import falcon
class Report:
    def on_get(self, request, response): response.text = "fine"
app = falcon.App()
app.add_route("/report", Report())
"""
LITESTAR = """\
from litestar import Litestar, Router, get
@get("/report")
async def report() -> str: return "fine"
app = Litestar([Router("/v1", route_handlers=[report])])
"""
AIOHTTP = """\
import asyncio
from aiohttp import web
async def report(request):
    await asyncio.sleep(0.02)
    return web.Response(text="fine")
async def make_app():
    app = web.Application()
    app.add_routes([web.get("/v1/report", report), web.get("/items/{number}", report)])
    return app
"""
TORNADO = """\
import asyncio, tornado.web
class Report(tornado.web.RequestHandler):
    async def get(self):
        await asyncio.sleep(0.02)
        self.write("fine")
app = tornado.web.Application([(r"/items/(\\d+)", Report), (r"/v1/report", Report)])
"""
WSGI = 'def app(environ, start_response):\n    start_response("200 OK", [])\n    return [b"fine"]\n'
MIDDLEWARE = f"""{STARLETTE}
class Timed:
    def __init__(self, app): self.app = app
    async def __call__(self, scope, receive, send): await self.app(scope, receive, send)
outer = Timed(app)
"""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def empty_venv(folder: Path) -> Path:
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"
