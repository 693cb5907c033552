"""A share of counted things, such as right answers among all requests: its interval, and how many would decide."""

from collections.abc import Sequence

from under_siege.stats.estimates import CONFIDENCE
from under_siege.stats.significance import beta_at

MOST = 10**9  # nobody sends more


def share_between(hits: Sequence[int], counts: Sequence[int]) -> tuple[float, float]:
    """The 95 % confidence interval of a share, from hits among so many in each round.

    It is exact for what happens independently (Clopper and Pearson, Biometrika 26, 1934). Failures come in bursts:
    where rounds differ by more than that allows, it is as wide as of so many fewer (McCullagh and Nelder, Generalized
    Linear Models, 1989, 4.5).
    """
    count = sum(counts)
    if not count:
        return 0.0, 1.0
    spread = _spread(hits, counts)
    return _exact(sum(hits) / spread, count / spread)


def more_needed(hits: Sequence[int], counts: Sequence[int], least: float) -> int | None:
    """How many more would prove a share of at least that, if they went like those; None if none would."""
    count = sum(counts)
    if not count or sum(hits) / count <= least:
        return None
    spread, share = _spread(hits, counts), sum(hits) / count

    def is_proven(many: int) -> bool:
        return _exact(share * many / spread, many / spread)[0] >= least

    low, high = count, 2 * count
    while not is_proven(high):
        low, high = high, 2 * high
        if high > MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_proven(middle) else (middle, high)
    return high - count


def _exact(hits: float, count: float) -> tuple[float, float]:
    """Of numbers that need not be whole."""
    misses, tail = count - hits, (1 - CONFIDENCE) / 2
    low = beta_at(hits, misses + 1, tail) if hits > 0 else 0.0
    high = beta_at(hits + 1, misses, 1 - tail) if misses > 0 else 1.0
    return low, high


def _spread(hits: Sequence[int], counts: Sequence[int]) -> float:
    """How many times the variance between the rounds is what independent events would give, at least 1."""
    known = [(hit, count) for hit, count in zip(hits, counts, strict=True) if count]
    share = sum(hits) / sum(counts)
    if len(known) < 2 or not 0 < share < 1:
        return 1.0
    squares = sum((hit - count * share) ** 2 / (count * share * (1 - share)) for hit, count in known)
    return max(1.0, squares / (len(known) - 1))
