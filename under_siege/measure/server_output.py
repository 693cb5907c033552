"""Read what a server prints, and find in it why the server failed or behaves in a special way."""

import re

from under_siege.host import known_causes, managed_process
from under_siege.host.managed_process import ManagedProcess, Tail


class ServerOutput:
    """The last parts of a server's stderr and stdout, which are empty if the server was already running."""

    def __init__(self, started: ManagedProcess | None) -> None:
        self._stderr = Tail(started.stderr) if started else None
        self._stdout = Tail(started.stdout) if started else None

    def text(self) -> str:
        """Return the end of stderr, as long as messages quote it."""
        return self._stderr.text() if self._stderr else ""

    def all_stderr(self) -> str:
        """Return the last part of stderr."""
        return self._stderr.all_kept() if self._stderr else ""

    async def read_to_end(self) -> None:
        """Wait until stderr is closed."""
        if self._stderr:
            await self._stderr.read_to_end()

    def last_line(self) -> str:
        return managed_process.last_line(self.text(), self._stdout.text() if self._stdout else "")

    def last_error(self) -> str:
        return managed_process.last_error(self.all_stderr())

    def known_cause(self) -> str:
        return known_causes.known_cause(self.all_stderr())

    def error_and_cause(self) -> str:
        """Return the last error and its known cause, or an empty string."""
        error = self.last_error()
        return "; ".join(filter(None, [error and f"the last error on stderr: {error}", self.known_cause()]))

    def gil_enabled_by(self) -> str:
        """Return the module that enabled the GIL, according to free-threaded Python's warning, or an empty string."""
        warning = re.search(r"GIL\) has been enabled to load module '([^']+)'", self.all_stderr())
        return warning[1] if warning else ""

    def consumed_iterators(self) -> str:
        """Return which iterators Django reads to their end before it sends them, according to its warning, or nothing.

        They are `synchronous` under ASGI, or `asynchronous` under WSGI.
        """
        warning = re.search(r"StreamingHttpResponse must consume (\w+) iterators", self.all_stderr())
        return warning[1] if warning else ""
