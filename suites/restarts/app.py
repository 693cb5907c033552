"""An application that takes half a second and 40 MB to start."""

import asyncio
import time

MODEL = b"x" * 40_000_000
time.sleep(0.5)


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in ("startup", "shutdown"):
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
        return
    if scope["path"] != "/ping":
        await asyncio.sleep(0.02)
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"4")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"pong"})
