"""Send HTTP requests: by default with a new connection each, no cache and no redirects."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import aiohttp
from yarl import URL

from common.errors import one_line
from under_siege.model.record import CaseFailedError
from under_siege.model.result_file import legible

ACCEPTED, POLL_S = 202, 0.05
MORE_BYTES = 65536  # accepted beyond the expected size, so that an error can quote a wrong body


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response of a server."""

    status: int
    body: bytes
    headers: dict[str, str]  # lower-case names

    def described(self) -> str:
        """Return status, size and beginning of the body, for a message."""
        text = self.body.decode(errors="replace")
        beginning = text if len(text) <= 60 else f"{text[:57]}..."
        location = self.headers.get("location", "") if 300 <= self.status < 400 else ""
        redirect = f" to {legible(location)[:100]!r}" if location else ""
        return f"{self.status}{redirect} with {len(self.body)} bytes {' '.join(beginning.split())!r}"


@contextlib.asynccontextmanager
async def client(*, keep_alive: bool = False) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a session without a limit on connections, so that no request waits for another one."""
    connector = aiohttp.TCPConnector(limit=0, force_close=not keep_alive)
    as_load_tools = {"Accept-Encoding": "identity"}
    async with aiohttp.ClientSession(connector=connector, headers=as_load_tools, auto_decompress=False) as session:
        yield session


def raw_url(url: str) -> URL:
    """Return the URL unchanged: like load tools, don't encode it again or resolve `..`."""
    return URL(url, encoded=True)


@contextlib.contextmanager
def _case_fails(request: str, timeout_message: str, limit_s: float | None) -> Iterator[None]:
    """Raise CaseFailedError for every failure except a refused connection."""
    try:
        yield
    except aiohttp.ClientConnectorError:
        raise
    except TimeoutError:
        raise CaseFailedError("no_answer", f"{timeout_message} within {limit_s:.1f} s") from None
    except (aiohttp.ClientError, ValueError) as error:  # aiohttp raises ValueError for too long lines and headers
        raise CaseFailedError("no_answer", f"{request}: {one_line(error)}") from None


async def get(
    session: aiohttp.ClientSession,
    url: str,
    limit_s: float | None = None,
    expected_bytes: int = 0,
    headers: Mapping[str, str] | None = None,
) -> HttpResponse:
    """Return the response to a GET.

    Raises:
        aiohttp.ClientConnectorError: the connection was refused.
        CaseFailedError: the response did not arrive in time, is too long, or is not HTTP.
    """
    timeout = aiohttp.ClientTimeout(total=limit_s)
    with _case_fails(f"GET {url}", f"GET {url} was not answered", limit_s):
        async with session.get(raw_url(url), timeout=timeout, allow_redirects=False, headers=headers) as response:
            return await read_response(response, expected_bytes)


async def get_job(
    session: aiohttp.ClientSession, url: str, limit_s: float | None = None, expected_bytes: int = 0
) -> HttpResponse:
    """Post a job and return its result; raise the same errors as `get`."""
    with _case_fails(f"POST {url}", f"the job of POST {url} was not done", limit_s):
        async with asyncio.timeout(limit_s):
            async with session.post(raw_url(url), allow_redirects=False) as response:
                answer = await read_response(response, expected_bytes)
            job_url = urljoin(url, answer.headers.get("location", "nowhere:"))
            if answer.status == ACCEPTED and urlsplit(job_url)[:2] != urlsplit(url)[:2]:
                raise CaseFailedError("wrong_answer", f"POST {url}: Location is missing or names another server")
            while answer.status == ACCEPTED:
                answer = await get(session, job_url, limit_s, expected_bytes, {"Prefer": "wait=10"})
                await asyncio.sleep(POLL_S * (answer.status == ACCEPTED))
            return answer


async def read_response(response: aiohttp.ClientResponse, expected_bytes: int) -> HttpResponse:
    """Read the whole response; raise CaseFailedError if it is much longer than expected."""
    most_bytes, body = expected_bytes + MORE_BYTES, bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > most_bytes:
            response.close()
            raise CaseFailedError("wrong_answer", f"GET {response.url} answered more than {most_bytes:,} bytes")
    return HttpResponse(response.status, bytes(body), {name.lower(): value for name, value in response.headers.items()})
