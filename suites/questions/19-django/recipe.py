"""views.py: three ways to call slow code from an async view."""

import asyncio
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from reports import build_report


def load_orders() -> str:
    time.sleep(0.1)  # stands in for ORM queries or other blocking calls
    return "done"


@cache
def pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))


async def orders(request: HttpRequest) -> HttpResponse:
    return HttpResponse(await sync_to_async(load_orders)())  # in the thread of this request


async def exchange_rate(request: HttpRequest) -> HttpResponse:
    await asyncio.sleep(0.1)  # stands in for a call with httpx.AsyncClient, which needs no thread
    return HttpResponse("done")


async def report(request: HttpRequest) -> HttpResponse:
    return HttpResponse(await asyncio.get_running_loop().run_in_executor(pool(), build_report))
