"""When enough rounds were measured."""

from common.model.case import Case
from common.model.record import Result
from common.report.judging.comparison import summarize
from common.report.judging.summary import Summary
from common.report.judging.verdict import FAILED

WITHIN = 0.03  # how far the interval of a rate may reach to each side, as a fraction of the rate
LEAST_ROUNDS = 3  # Student's t is so wide below that hardly anything would ever be certain

MOST_ROUNDS = 10


def uncertain(result: Result) -> set[Case]:
    """Those whose rates are not known well enough yet."""
    return {one.case for one in summarize(result).cases if one.verdict != FAILED and not _certain(one)}


def _certain(case: Summary) -> bool:
    width = case.rate_per_s.half_width if case.rate_per_s else None
    return case.rounds >= LEAST_ROUNDS and width is not None and width <= WITHIN
