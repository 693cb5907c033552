"""Who is told how a run goes on."""

from typing import Protocol


class ProgressListener(Protocol):
    """Shows it to somebody, or not."""

    def warn(self, message: str) -> None:
        """Something will make the result worse than it could be."""

    def say(self, message: str) -> None:
        """Something that is good to know."""

    def case_begins(self, what: str, time_s: float) -> None:
        """A server is about to be started, and will be under load for so long."""

    def answer_came(self) -> None:
        """The load tool got an answer."""

    def case_ends(self) -> None:
        """All is measured and the server is gone."""
