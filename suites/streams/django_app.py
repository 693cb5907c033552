"""Django's StreamingHttpResponse with an `async def` generator, under uvicorn."""

import asyncio
from collections.abc import AsyncIterator

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path
from events import EVENTS, WAIT_S, make_event

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"])


async def health(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


async def events(kind: str) -> AsyncIterator[str]:
    for number in range(EVENTS):
        event = make_event(kind, number)
        await asyncio.sleep(WAIT_S[kind])
        yield event


async def stream(request: HttpRequest, kind: str) -> StreamingHttpResponse:
    return StreamingHttpResponse(events(kind), content_type="text/event-stream")


urlpatterns = [path("health", health), path("<kind>", stream)]
asgi = get_asgi_application()
