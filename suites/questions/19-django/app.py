"""A Django project in one file. The environment variable VIEWS selects the kind of view."""

import os

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path
from recipe import exchange_rate, load_orders, orders, report
from reports import build_report

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"])
JOBS = {"wait": load_orders, "compute": build_report}


def sync(request: HttpRequest, job: str) -> HttpResponse:
    return HttpResponse(JOBS[job]())


async def blocking(request: HttpRequest, job: str) -> HttpResponse:
    return HttpResponse(JOBS[job]())


async def any_thread(request: HttpRequest, job: str) -> HttpResponse:
    return HttpResponse(await sync_to_async(JOBS[job], thread_sensitive=False)())


async def thread_sensitive(request: HttpRequest, job: str) -> HttpResponse:
    return await orders(request) if job == "wait" else HttpResponse(await sync_to_async(build_report)())


async def awaiting(request: HttpRequest, job: str) -> HttpResponse:
    return await (exchange_rate if job == "wait" else report)(request)


async def health(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


view = {each.__name__: each for each in (sync, blocking, any_thread, thread_sensitive, awaiting)}[os.environ["VIEWS"]]
urlpatterns = [path("health", health), path("<job>", view)]
wsgi, asgi = get_wsgi_application(), get_asgi_application()
