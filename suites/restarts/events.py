"""Notifications: streams that stay open until the client leaves."""

import asyncio

BODY = {"type": "http.response.body", "more_body": True}


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in ("startup", "shutdown"):
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
        return
    is_ping = scope["path"] == "/ping"
    headers = [(b"content-type", b"text/plain" if is_ping else b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if is_ping:
        await send({"type": "http.response.body", "body": b"pong"})
        return
    leaves = asyncio.create_task(until_it_leaves(receive))
    number = 0
    while not leaves.done():
        await send({**BODY, "body": b"data: %d\n\n" % number})
        number += 1
        await asyncio.sleep(0.1)


async def until_it_leaves(receive):
    while (await receive())["type"] != "http.disconnect":
        pass
