"""Send requests of the load as a user does, to try the server before the load and to check its responses."""

import aiohttp

from under_siege.load.http_client import HttpResponse, fetch
from under_siege.load.jobs import fetch_job
from under_siege.load.request import Load, MixedRequest, Request
from under_siege.load.simulated_user import SimulatedUser
from under_siege.load.streams import fetch_stream
from under_siege.record.record import CaseFailedError


class BenchUser:
    """The user of a server that the bench itself is."""

    def __init__(self, load: Load, url: str, load_url: str) -> None:
        self._load, self._url, self._load_url = load, url, load_url
        self._user = SimulatedUser()

    async def set_up(self, session: aiohttp.ClientSession, number: int = 1) -> None:
        """Be the user with this number from now on, and send the requests of its setup.

        Raises:
            CaseFailedError: a request fails.
        """
        user = SimulatedUser(number, has_setup=bool(self._load.setup))
        try:
            await user.set_up(session, self._url, self._load.setup)
        except aiohttp.ClientConnectorError as error:
            raise CaseFailedError("refused", f"setup: the connection was refused: {error.strerror}") from None
        self._user = user

    def filled(self, url: str, request: Request) -> tuple[str, Request]:
        """Return a request of the load with a value for each placeholder, as this user sends it.

        Raises:
            CaseFailedError: no answer of the setup contains a value.
        """
        sent = self._user.filled(url, request)
        self._user.hide_secrets()
        return sent

    async def send_load_request(
        self, session: aiohttp.ClientSession, limit_s: float, right: bytes = b"", one: MixedRequest | None = None
    ) -> HttpResponse:
        """Send a request of the load and return the response; raise the same errors as `fetch`."""
        url, request = (self._url + one.path, one.request) if one else (self._load_url, self._load.request)
        url, request = self.filled(url, request)
        if self._load.stream:
            return await fetch_stream(session, url, limit_s, self._load.stream, request)
        send = fetch_job if self._load.posts_jobs else fetch
        return await send(session, url, limit_s, right, request)
