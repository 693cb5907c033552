"""Tables of requests in a result file: one entry per request in each column."""

import msgspec

from under_siege.model.validation import Moment

FAILED_OUTCOMES = ("lost", "late", "wrong")


class TracedRequests(msgspec.Struct, frozen=True):
    """Requests for the task that were sent at the same time; times in seconds since the first ping."""

    sent_s: list[Moment] = []
    answered_s: list[Moment] = []
    worker: list[str] = []  # "process id/thread name" where the server tells, else empty
    # For each request the stretches in which its task ran: from, to, and how much it computed in between. That is
    # None where the server doesn't tell; then the stretch is its Server-Timing, counted back from the answer.
    ran_s: list[list[tuple[float, float, float | None]]] = []


class Requests(msgspec.Struct, frozen=True):
    """Requests of the load, one entry for each; times in seconds since the load began."""

    sent_s: list[Moment] = []
    ended_s: list[Moment] = []
    # Empty where the answer was right; `refused`: a 503 that says when to come again; `lost`: none, or cut off;
    # `late`: none within the patience; `wrong`: any other.
    outcome: list[str] = []


class Recovery(msgspec.Struct, frozen=True):
    """Requests sent after a fault to check the recovery, one entry for each; times in seconds since the load began."""

    sent_s: list[Moment] = []
    ended_s: list[Moment] = []
    outcome: list[str] = []  # as in `Requests`
    process: list[str] = []  # the process id in `X-Worker`; empty without that header

    def is_passed(self, answers: int, processes: int) -> bool:
        """Return whether no request failed and the last ones form a row of right answers that is long enough.

        Args:
            answers: how long the row has to be.
            processes: how many distinct processes have to be in it.
        """
        last_refused = max((place for place, outcome in enumerate(self.outcome, 1) if outcome), default=0)
        row = self.process[last_refused:]
        is_complete = len(row) >= answers and len({*row} - {""}) >= processes
        return is_complete and not any(outcome in FAILED_OUTCOMES for outcome in self.outcome)


class Arrivals(msgspec.Struct, frozen=True):
    """Requests of an open load, one entry for each; times in seconds since the load began."""

    due_s: list[Moment] = []
    sent_s: list[Moment] = []  # later than due only if the generator was late itself
    ended_s: list[Moment] = []  # or when it was given up
    # As that of `Requests`; `unanswered`: none until nobody waited any more.
    outcome: list[str] = []
