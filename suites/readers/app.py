"""An export of 30 MB that is produced faster than a phone on a train reads it."""

PIECE = b"0123456789abcdef" * 4096


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in ("startup", "shutdown"):
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
        return
    is_ping = scope["path"] == "/ping"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/csv")]})
    for _ in range(0 if is_ping else 480):
        await send({"type": "http.response.body", "body": PIECE, "more_body": True})
    await send({"type": "http.response.body", "body": b"pong" if is_ping else b""})
