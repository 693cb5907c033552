"""A synchronous HTTP client in a coroutine."""

import asyncio
import subprocess
import sys
from pathlib import Path

import requests
import tornado.web

service = subprocess.Popen(
    [sys.executable, Path(__file__).with_name("slow_service.py")], stdout=subprocess.PIPE, text=True
)
assert service.stdout is not None
URL = service.stdout.readline().strip()


class Report(tornado.web.RequestHandler):
    async def get(self) -> None:
        self.write(requests.get(URL, timeout=5).text)  # noqa: ASYNC210


async def main(port: int) -> None:
    tornado.web.Application([("/report", Report)]).listen(port, "127.0.0.1")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
