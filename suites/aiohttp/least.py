"""The ceiling: a minimal web server that runs the same queries.

usage: python least.py HOST PORT POSTGRESQL

The server reads only a request's path and whether to keep the connection, and uses asyncpg for `raw` and `orm`.
"""

import asyncio
import json
import sys

import data
from page import page
from raw import Raw

HOST, PORT, ADDRESS = sys.argv[1:4]
STORE = Raw()


async def answer(path: str) -> str:
    _, *folders, last = path.split("/")
    if last == "plaintext":
        return "Hello, World!"
    if last == "json":
        return json.dumps({"message": "Hello, World!"})
    if last == "fortunes":
        return page(await STORE.fortunes())
    if last == "db":
        return json.dumps(await STORE.row())
    ask = STORE.rows if folders[-1] == "queries" else STORE.update
    return json.dumps(await ask(int(last)))


class Least(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.task, self.seen = transport, None, b""

    def data_received(self, received: bytes) -> None:
        self.seen += received
        if self.seen.endswith(b"\r\n\r\n"):
            head, self.seen = self.seen, b""
            self.task = asyncio.get_running_loop().create_task(self.reply(head))

    def connection_lost(self, error: Exception | None) -> None:
        if self.task:
            self.task.cancel()

    async def reply(self, head: bytes) -> None:
        body = (await answer(head.split(b" ", 2)[1].decode())).encode()
        lower = head.lower()
        keep = b" http/1.1\r\n" in lower or b"\r\nconnection: keep-alive" in lower
        close = not keep or b"\r\nconnection: close" in lower
        header = "Connection: close\r\n" if close else ""
        self.transport.write(f"HTTP/1.1 200 OK\r\n{header}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        if close:
            self.transport.close()


async def main() -> None:
    await data.fill(ADDRESS)
    await STORE.open(ADDRESS)
    server = await asyncio.get_running_loop().create_server(Least, HOST, int(PORT), backlog=512)
    await server.serve_forever()


asyncio.run(main())
