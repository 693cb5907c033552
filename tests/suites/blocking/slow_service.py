"""A service for other test applications: it prints its URL and answers each request after 20 ms."""

import asyncio

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while (await reader.read(65_536)).endswith(b"\r\n\r\n"):
        await asyncio.sleep(0.02)
        writer.write(RESPONSE)
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print("http://{}:{}/".format(*server.sockets[0].getsockname()), flush=True)
    await server.serve_forever()


asyncio.run(main())
