"""One GET request, as the harness sends it: a new connection, no cache, no redirects."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp

from common.errors import one_line
from common.harness.failures import CaseFailedError

MORE_BYTES = 65536  # than are expected may come: enough to show what is wrong


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered."""

    status: int
    body: bytes
    headers: dict[str, str]  # with names in lower case

    def described(self) -> str:
        """Short, for a message."""
        text = self.body.decode(errors="replace")
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        return f"{self.status} with {len(self.body)} bytes {' '.join(shown.split())!r}"


@contextlib.asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """A session without a limit of connections: a probe must not wait for itself."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        yield session


async def get(
    session: aiohttp.ClientSession, url: str, limit_s: float | None = None, expected_bytes: int = 0
) -> Answer:
    """The answer to a GET.

    Raises:
        aiohttp.ClientConnectorError: nobody listens there.
        CaseFailedError: no answer in time, one that has no end, or something that isn't HTTP.
    """
    timeout = aiohttp.ClientTimeout(total=limit_s)
    try:
        async with session.get(url, timeout=timeout, allow_redirects=False) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, await _body(response, expected_bytes + MORE_BYTES), headers)
    except aiohttp.ClientConnectorError:
        raise
    except TimeoutError:
        raise CaseFailedError("no_answer", f"GET {url} was not answered within {limit_s:.1f} s") from None
    except aiohttp.ClientError as error:
        raise CaseFailedError("no_answer", f"GET {url}: {one_line(error)}") from None
    except ValueError as error:  # aiohttp: a line or a header beyond its limits
        raise CaseFailedError("no_answer", f"GET {url}: {one_line(error)}") from None


async def _body(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """All of it, if it is no more than so much: a server may send for ever."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > most_bytes:
            response.close()
            raise CaseFailedError("wrong_answer", f"GET {response.url} answered more than {most_bytes:,} bytes")
    return bytes(body)
