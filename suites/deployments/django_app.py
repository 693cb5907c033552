"""A Django project in one file. The environment variable VIEW names the view that runs the task."""

import asyncio
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

from common.task import perform

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"])
pool = ProcessPoolExecutor(int(os.environ.get("PROCESSES", "1")), mp_context=multiprocessing.get_context("forkserver"))


def sync(request: HttpRequest, task: str) -> HttpResponse:
    return HttpResponse(perform(task).answer)


async def blocking(request: HttpRequest, task: str) -> HttpResponse:
    return HttpResponse(perform(task).answer)


async def thread_sensitive(request: HttpRequest, task: str) -> HttpResponse:
    return HttpResponse((await sync_to_async(perform)(task)).answer)


async def any_thread(request: HttpRequest, task: str) -> HttpResponse:
    return HttpResponse((await sync_to_async(perform, thread_sensitive=False)(task)).answer)


async def process_pool(request: HttpRequest, task: str) -> HttpResponse:
    return HttpResponse((await asyncio.get_running_loop().run_in_executor(pool, perform, task)).answer)


def health(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


async def async_health(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


views = {view.__name__: view for view in (sync, blocking, thread_sensitive, any_thread, process_pool)}
view = views[os.environ["VIEW"]]
urlpatterns = [path("health", health if view is sync else async_health), path("<task>", view)]
wsgi = get_wsgi_application()
asgi = get_asgi_application()
