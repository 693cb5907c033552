"""Decide how long a siege lasts."""

from statistics import median

import numpy as np

from under_siege.judge.estimators import LEAST_LONGEST, LONG_TAIL, MANY_UNEVEN, SETTLED_USERS, begins_early, is_even
from under_siege.load.request import Ping
from under_siege.suite.expected_response import Expectation

# Shorter sieges rank equal servers differently more often if the machine's speed varies.
SHORTEST_SIEGE_S = 3.0
# Length of a siege, as a multiple of the time until its settled part. The settled part then has more than one and a
# half cycles of request and response. Shorter sieges would give less accurate rates on a slow machine.
TIMES_SETTLED = 2.75
# A screening siege ends after this number of responses, if they show the rate. It is then known to within about 15 %.
SCREENING_ANSWERS = 40
LONGEST_OF_NEEDED = 2.0  # maximum length of a siege, as a multiple of `most_needed_s`
LONGEST_WITH_A_TAIL_S = 60.0  # maximum length of a siege in which a few requests take much longer than most
LONGEST_STREAM_S = 20.0  # longer streams don't make a siege longer
FEWEST_PINGS = 5  # minimum number of pings in a siege, even if they are rare
CYCLES_OF_A_BURST = 10  # minimum cycles of request and response in each of several bursts, if tasks run one at a time
MOST_BURSTS = 8


class Length:
    """Decide when a siege ends, based on the times of its responses."""

    def __init__(
        self,
        asked_s: float | None,
        users: int,
        expected: Expectation,
        least_s: float = 0.0,
        *,
        is_screening: bool = False,
    ) -> None:
        """Prepare for a siege.

        Args:
            asked_s: its length, or None to decide here.
            least_s: its minimum length, unless it is asked for.
            is_screening: whether the siege only has to show roughly how high the rate is. Streams and users who pause
                always need a full siege.
        """
        self._least_s = max(SHORTEST_SIEGE_S, least_s)
        self._is_fixed = asked_s is not None
        self._is_screening = is_screening and not expected.stream and not expected.cycle_s
        self._needed = max(1, round(SETTLED_USERS * users))
        self._last_s: dict[int, float] = {}  # each user's last response
        self._settled_s: float | None = None  # when nine of ten users had had a response
        self._longest_s = LONGEST_OF_NEEDED * most_needed_s(users, expected)
        self._answers_s: list[float] = []  # of a screening siege, until they show the rate
        self._took_s: list[float] = []
        self._burst_s = CYCLES_OF_A_BURST / TIMES_SETTLED * most_needed_s(users, expected)
        needed_s = (screening_s if self._is_screening else most_needed_s)(users, expected)
        self.end_s = asked_s or max(self._least_s, LONGEST_OF_NEEDED * needed_s)  # seconds since the siege began

    def last_until(self, end_s: float) -> None:
        """End the siege at this time, regardless of the responses."""
        self._is_fixed, self.end_s = True, end_s

    def answer(self, user: int, at_s: float) -> None:
        """Record that a user got a response."""
        if self._is_fixed:
            return
        was_settled = len(self._last_s) >= self._needed
        if user in self._last_s:
            self._took_s.append(at_s - self._last_s[user])
        self._last_s[user] = at_s
        if len(self._last_s) >= self._needed and not was_settled:
            self._settled_s = at_s
            self.end_s = min(self.end_s, max(self._least_s, TIMES_SETTLED * at_s))
        if self._is_screening:
            self._screen(at_s)

    def _screen(self, at_s: float) -> None:
        """End a screening siege once nine of ten users had a response, or enough responses came one after the other."""
        self._answers_s.append(at_s)
        if len(self._answers_s) < SCREENING_ANSWERS:
            return
        answers_s = np.sort(self._answers_s)
        is_enough = len(answers_s) >= MANY_UNEVEN or is_even(answers_s)
        if len(self._last_s) >= self._needed or (is_enough and begins_early(answers_s)):
            self.last_until(min(self.end_s, max(self._least_s, at_s)))

    def is_over(self, now_s: float) -> bool:
        """Return whether the siege is over; make it longer if some requests take much longer than most.

        The rate then needs a window that is much longer than the longest request; see `counted_rate`. Until such a
        request has ended, it counts with its age.
        """
        if now_s >= self.end_s and not self._is_fixed and self._took_s:
            longest_s = max(*self._took_s, now_s - min(self._last_s.values()))
            if longest_s > LONG_TAIL * median(self._took_s):
                needed_s = min(LONGEST_WITH_A_TAIL_S, (1.05 + LEAST_LONGEST) * longest_s)
                self.end_s = max(self.end_s, needed_s)
        return now_s >= self.end_s

    def more_in_full_s(self) -> float:
        """Return how many seconds longer a full siege of the same server would take than this screening siege.

        This includes the time that the server then needs for requests that the load tool has abandoned.
        """
        if not self._is_screening:
            return 0.0
        last_s = max(self._last_s.values(), default=self.end_s)
        settled_s = self._settled_s or last_s * self._needed / max(1, len(self._last_s))
        full_s = max(self._least_s, min(self._longest_s, TIMES_SETTLED * settled_s))
        return max(0.0, full_s - self.end_s) + min(self._longest_s, settled_s)

    def bursts(self, least_s: float) -> tuple[int, float]:
        """Return the number of bursts and the length of each, which is at least `least_s` unless the siege is shorter.

        Requests in flight at the end of a burst are lost and delay the next burst. Therefore, if responses may be
        slow, there are only a few bursts, or one.
        """
        count = max(1, min(MOST_BURSTS, int(self.end_s / max(least_s, self._burst_s))))
        return count, self.end_s / count


def pinged_s(ping: Ping | None) -> float:
    """Return how many seconds a siege must last for FEWEST_PINGS."""
    return FEWEST_PINGS * ping.every_s if ping else 0.0


def most_needed_s(users: int, expected: Expectation) -> float:
    """Return how many seconds a siege must last, including checks, if the server performs one task at a time.

    Of streams, the events count, so most users' streams need not end.
    """
    if expected.stream:
        return TIMES_SETTLED * min(max(expected.task_s, expected.cpu_s), LONGEST_STREAM_S) + expected.cycle_s
    return TIMES_SETTLED * ((users + 1) * max(expected.task_s, expected.cpu_s) + expected.cycle_s)


def screening_s(users: int, expected: Expectation) -> float:
    """Return how many seconds a screening siege must last if the server performs one task at a time."""
    return min(most_needed_s(users, expected), (users + SCREENING_ANSWERS) * max(expected.task_s, expected.cpu_s))


def least_needed_s(users: int, cpus: int, expected: Expectation) -> float:
    """Return how many seconds a siege must last if the server uses all CPUs and overlaps all waits."""
    return TIMES_SETTLED * (max(expected.task_s, users * expected.cpu_s / cpus) + expected.cycle_s)
