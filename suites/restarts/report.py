"""A report that takes five seconds."""

import asyncio


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in ("startup", "shutdown"):
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
        return
    if scope["path"] != "/ping":
        await asyncio.sleep(5)
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"4")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"pong"})
