"""A computation in a coroutine."""

import asyncio
import sys

import tornado.web


def count_primes() -> int:
    return sum(all(number % divisor for divisor in range(2, int(number**0.5) + 1)) for number in range(2, 8000))


class Report(tornado.web.RequestHandler):
    async def get(self) -> None:
        self.write(str(count_primes()))


async def main(port: int) -> None:
    tornado.web.Application([("/report", Report)]).listen(port, "127.0.0.1")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
