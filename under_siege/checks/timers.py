"""A timer and not work: users wait for a time that no computing explains, because something looks only now and then."""

import numpy as np

from under_siege import formatting
from under_siege.checks.evidence import Evidence, is_busy
from under_siege.checks.suspicions import starved_generator
from under_siege.stats.rounds_data import Round

FEWEST_CHECKS = 3  # the same request, on connections of its own
FEWEST_IN_LINE = 2  # of one user each answer takes about as long as a check
TIGHT = 1.6  # times the median, and the 95th percentile is below that: a timer does not wait in line
IDLE = 0.5  # of one CPU; a server that computes under a GIL takes all of one
KNOWN = (  # from and to in seconds, and the likely cause; Locust tells its percentiles to two digits
    (0.039, 0.046, "Nagle's algorithm and delayed ACK (40 ms): write head and body at once, or set TCP_NODELAY"),
    (0.047, 0.063, "a poll every 0.1 s, half of which one waits on the average, or which other requests wake"),
    (0.095, 0.116, "a poll every 0.1 s, such as the select of cheroot 8.1 to 8.4, in which kept connections wait"),
)


def timer(one: Round, _: Evidence) -> str | None:
    """Answers that take as long as a known timer, and longer than if all users stood in one line.

    The checks ask for the same on new connections at the same time. Whatever a server is waiting for, and however few
    of its workers the users share: if one answer takes so long, users have to wait at most so many times that.
    """
    waited_s, soon_s = _usual_wait_s(one), one.checks.duration_s[one.checks.good]
    cause = next((cause for least_s, most_s, cause in KNOWN if least_s <= (waited_s or 0.0) <= most_s), None)
    if waited_s is None or cause is None or len(soon_s) < FEWEST_CHECKS:
        return None
    usual_s = float(np.median(soon_s))
    in_line_s, share = max(FEWEST_IN_LINE, one.record.users) * usual_s, _cpu_share(one)
    p95_s = one.response_s(95)
    if waited_s <= in_line_s or (p95_s is not None and p95_s > TIGHT * waited_s) or share is None or share > IDLE:
        return None
    return (
        f"a timer and not work: users waited {formatting.seconds(waited_s)}, "
        f"while the same request on a new connection took {formatting.seconds(usual_s)}, "
        f"and the server used {100 * share:.0f} % of a CPU; the likely cause is {cause}"
    )


def _usual_wait_s(one: Round) -> float | None:
    """The median; where the tool tells no percentiles, the mean, as users and rate have it (Little).

    In the mean there is what the tool itself and other work took; None where that was much.
    """
    known = one.response_s(50)
    if known is None and one.totals and one.completed and not is_busy(one) and not starved_generator(one):
        return float(one.record.users * one.totals.took_s.sum() / one.totals.attempts)
    return known


def _cpu_share(one: Round) -> float | None:
    """How much of one CPU the server used while it was asked."""
    used_s = one.server_cpu_s()
    asked_s = float(one.totals.took_s.sum()) if one.totals else one.record.load_s
    return None if used_s is None or not asked_s else used_s / asked_s
