"""Answer slowly, and at SIGTERM answer only some requests: `python stops.py PORT FINISHED EXIT_S [--until-left]`.

`GET /` takes 0.4 s, and `GET /events` is an endless stream. At SIGTERM, the last FINISHED of the open requests are
answered and end cleanly; the connections of the others are closed. The server ends with status 7 after EXIT_S seconds.
With `--until-left`, SIGTERM closes nothing, and the server ends when no client is connected.
"""

import asyncio
import signal
import sys

port, finished, exit_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
waits_for_clients = "--until-left" in sys.argv
opened: list[asyncio.StreamWriter] = []
stopping = asyncio.Event()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\npong"


async def wait(seconds: float) -> bool:
    """Wait; return whether the server is being stopped, unless that closes nothing."""
    if waits_for_clients:
        await asyncio.sleep(seconds)
        return False
    try:
        await asyncio.wait_for(stopping.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def respond(writer: asyncio.StreamWriter, path: bytes) -> None:
    if path == b"/events":
        writer.write(HEAD)
        while not await wait(0.02):
            writer.write(b"9\r\ndata: 1\n\n\r\n")
            await writer.drain()
        end = b"0\r\n\r\n"
    else:
        await wait(0.4 if path == b"/" else 0)
        end = WHOLE
    if not stopping.is_set() or writer in opened[len(opened) - finished :]:
        writer.write(end)


async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1]
        if path != b"/ping":
            opened.append(writer)
        await respond(writer, path)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        if writer in opened and (waits_for_clients or not stopping.is_set()):
            opened.remove(writer)
        writer.close()


async def main() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await asyncio.start_server(connected, "127.0.0.1", port)
    await stopping.wait()
    while waits_for_clients and opened:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await asyncio.sleep(exit_s)
    sys.exit(7)


asyncio.run(main())
