"""Send one GET request on a new connection, without cache and redirects."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import aiohttp
from yarl import URL

from common.errors import one_line
from under_siege.errors import CaseFailedError
from under_siege.model.result_file import legible

ACCEPTED, ASK_AGAIN_S = 202, 0.05
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
        elsewhere = self.headers.get("location", "") if 300 <= self.status < 400 else ""
        where = f" to {legible(elsewhere)[:100]!r}" if elsewhere else ""
        return f"{self.status}{where} with {len(self.body)} bytes {' '.join(shown.split())!r}"


@contextlib.asynccontextmanager
async def client(*, keep_alive: bool = False) -> AsyncIterator[aiohttp.ClientSession]:
    """A session without a limit of connections: a probe must not wait for itself."""
    connector = aiohttp.TCPConnector(limit=0, force_close=not keep_alive)
    as_load_tools = {"Accept-Encoding": "identity"}
    async with aiohttp.ClientSession(connector=connector, headers=as_load_tools, auto_decompress=False) as session:
        yield session


def raw_url(url: str) -> URL:
    """What load tools ask for, too: nothing in it is written otherwise, and no `..` resolved."""
    return URL(url, encoded=True)


async def get(
    session: aiohttp.ClientSession,
    url: str,
    limit_s: float | None = None,
    expected_bytes: int = 0,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """The answer to a GET.

    Raises:
        aiohttp.ClientConnectorError: nobody listens there.
        CaseFailedError: no answer in time, one that has no end, or something that isn't HTTP.
    """
    timeout = aiohttp.ClientTimeout(total=limit_s)
    try:
        async with session.get(raw_url(url), timeout=timeout, allow_redirects=False, headers=headers) as response:
            return await answer_of(response, expected_bytes)
    except aiohttp.ClientConnectorError:
        raise
    except TimeoutError:
        raise CaseFailedError("no_answer", f"GET {url} was not answered within {limit_s:.1f} s") from None
    except aiohttp.ClientError as error:
        raise CaseFailedError("no_answer", f"GET {url}: {one_line(error)}") from None
    except ValueError as error:  # aiohttp: a line or a header beyond its limits
        raise CaseFailedError("no_answer", f"GET {url}: {one_line(error)}") from None


async def get_job(
    session: aiohttp.ClientSession, url: str, limit_s: float | None = None, expected_bytes: int = 0
) -> Answer:
    """What comes of a job that is posted there; raises as `get`."""
    try:
        async with asyncio.timeout(limit_s):
            async with session.post(raw_url(url), allow_redirects=False) as posted:
                answer = await answer_of(posted, expected_bytes)
            place = urljoin(url, answer.headers.get("location", "nowhere:"))
            if answer.status == ACCEPTED and urlsplit(place)[:2] != urlsplit(url)[:2]:
                raise CaseFailedError("wrong_answer", f"POST {url} does not say where its job is, or that is elsewhere")
            while answer.status == ACCEPTED:
                answer = await get(session, place, limit_s, expected_bytes, {"Prefer": "wait=10"})
                await asyncio.sleep(ASK_AGAIN_S * (answer.status == ACCEPTED))
            return answer
    except aiohttp.ClientConnectorError:
        raise
    except TimeoutError:
        raise CaseFailedError("no_answer", f"the job of POST {url} was not done within {limit_s:.1f} s") from None
    except (aiohttp.ClientError, ValueError) as error:
        raise CaseFailedError("no_answer", f"POST {url}: {one_line(error)}") from None


async def answer_of(response: aiohttp.ClientResponse, expected_bytes: int) -> Answer:
    """All of it, in however many pieces it comes; raises CaseFailedError: it has no end."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status, await _body(response, expected_bytes + MORE_BYTES), headers)


async def _body(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """If it is no more than so much: a server may send for ever."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > most_bytes:
            response.close()
            raise CaseFailedError("wrong_answer", f"GET {response.url} answered more than {most_bytes:,} bytes")
    return bytes(body)
