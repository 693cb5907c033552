"""What incidents say in figures: for each server and fault the medians of its rounds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from under_siege.faults.fault import CONTROL, FAULTS
from under_siege.model.case import Case
from under_siege.model.record import Incident
from under_siege.model.requests import FAILED_OUTCOMES

SETTLE_S, WINDOW_S, WHOLE = 0.3, 0.5, 0.8  # the rate is whole again when it is so much of what it was, over so long
WATCHED_S = 0.8  # after a task that never ends had begun, in files that do not say for how long
NEVER = -1.0
Figures = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Drilled:
    """A server under one fault: its figures are medians over the rounds; None is never, or not known."""

    case: Case
    title: str
    fault: str
    incidents: tuple[Incident, ...]
    figures: Figures = field(default_factory=dict)
    without: str = ""  # why the fault can't happen to it
    failure: str = ""  # why it could not be drilled
    unusable: str = ""  # why none of the server's faults can be judged; `failure` says the same

    @property
    def has_figures(self) -> bool:
        """Whether it happened."""
        return bool(self.figures)


def drilled(incidents: Iterable[Incident]) -> list[Drilled]:
    """Server by server in the order of their numbers, fault by fault in theirs."""
    groups: dict[tuple[Case, str], list[Incident]] = {}
    for one in incidents:
        groups.setdefault((one.case.without(["task", "users"]), one.fault), []).append(one)
    order = list(FAULTS)
    known = [item for item in groups.items() if item[0][1] in FAULTS]  # not what a later version may have added
    ordered = sorted(known, key=lambda item: (_place(item[0][0]), order.index(item[0][1])))
    unusable = {case: _why_unusable(found) for (case, fault), found in known if fault == CONTROL}
    return [_drilled(case, fault, found, unusable.get(case, "")) for (case, fault), found in ordered]


def _why_unusable(control: Sequence[Incident]) -> str:
    """Return why nothing can be concluded from any fault: requests failed without one. Empty if none did."""
    outcomes = [outcome for one in control for outcome in (*one.requests.outcome, *one.recovery.outcome)]
    failed = sum(outcome in FAILED_OUTCOMES for outcome in outcomes)
    return f"{failed} of {len(outcomes)} requests failed with no fault" if failed else ""


def _place(case: Case) -> tuple[float, str, str]:
    number = case.server.rpartition("/")[2].split("_")[0]
    return (int(number) if number.isdecimal() else np.inf), case.server, repr(case.values)


def _drilled(case: Case, fault: str, found: Sequence[Incident], unusable: str) -> Drilled:
    first = found[0]
    without = next((one.without for one in found if one.without), "")
    failure = next((one.failure.message for one in found if one.failure), "") or unusable
    sound = [figures_of(one) for one in found if not one.without and not one.failure and not unusable]
    figures = _medians(sound) if sound else {}
    return Drilled(case, first.title, fault, tuple(found), figures, without if not sound else "", failure, unusable)


def _medians(sound: Sequence[Figures]) -> Figures:
    """Of each figure; never counts as longer than all else."""
    names = dict.fromkeys(name for figures in sound for name in figures)
    return {name: _median([figures[name] for figures in sound if name in figures]) for name in names}


def _median(values: Sequence[float | None]) -> float | None:
    ordered = sorted(np.inf if value is None else value for value in values)
    middle = ordered[len(ordered) // 2]
    return None if middle == np.inf else float(middle)


def figures_of(one: Incident) -> Figures:
    """What one incident says; a figure that is None was never reached."""
    seen: Figures = {
        name: None if value == NEVER and name.endswith("_s") else value for name, value in one.seen.items()
    }
    if one.fault in (CONTROL, "worker", "endless", "slow"):
        seen |= _under_load(one)
    if one.has_recovered is not None:
        seen["failed_after"] = float(sum(outcome in FAILED_OUTCOMES for outcome in one.recovery.outcome))
    if one.has_recovered is False:
        seen |= dict.fromkeys({"whole_s", "quick_s"} & seen.keys())
    return seen


def _under_load(one: Incident) -> Figures:
    at_s = one.fault_at_s or 0.0
    before = rate_between(one, SETTLE_S, at_s)
    found: Figures = {"before_per_s": before, "after_per_s": rate_between(one, at_s, one.ended_s)}
    if one.pings.due_s:  # a suite may have none
        found["ping_p99_s"] = ping_p99_s(one, at_s, one.ended_s)
    if one.fault == "worker":
        found["lost"] = float(sum(ended_s >= at_s for ended_s in _failed_s(one)))
        found["whole_s"] = whole_again_s(one, before)
    for name in ("one", "all"):
        if f"{name}_from_s" in one.seen and one.pings.due_s:
            from_s = one.seen[f"{name}_from_s"]
            found[f"{name}_ping_p99_s"] = ping_p99_s(one, from_s, one.seen.get(f"{name}_to_s", from_s + WATCHED_S))
    return found


def rate_between(one: Incident, from_s: float, to_s: float) -> float:
    """Right answers per second."""
    if to_s <= from_s:
        return 0.0
    done = zip(one.requests.ended_s, one.requests.outcome, strict=True)
    return sum(from_s <= ended_s < to_s and not outcome for ended_s, outcome in done) / (to_s - from_s)


def whole_again_s(one: Incident, before: float) -> float | None:
    """Return the time from the fault until the rate was back for half a second and no request failed any more.

    None if that never happened while the load was on.
    """
    at_s = one.fault_at_s or 0.0
    quiet_s = max([at_s, *_failed_s(one)])
    right = np.sort([ended for ended, what in zip(one.requests.ended_s, one.requests.outcome, strict=True) if not what])
    to_s = one.ended_s - WINDOW_S
    begins = np.concatenate([np.arange(quiet_s, to_s + 1e-9, 0.01), right[(right >= quiet_s) & (right <= to_s)]])
    for begin_s in np.sort(begins):  # at each answer, too: a window that was seen to be whole is one of these
        inside = np.searchsorted(right, begin_s + WINDOW_S) - np.searchsorted(right, begin_s)
        if inside / WINDOW_S >= WHOLE * before:
            return float(begin_s - at_s)
    return None


def _failed_s(one: Incident) -> list[float]:
    """Return when requests ended without a right answer, refusals not counted."""
    ended = zip(one.requests.ended_s, one.requests.outcome, strict=True)
    return [ended_s for ended_s, outcome in ended if outcome in FAILED_OUTCOMES]


def ping_p99_s(one: Incident, from_s: float, to_s: float) -> float | None:
    """Of the pings that were due then; None if too many of them were never answered."""
    waits = [
        np.inf if problem else waited_s
        for due_s, waited_s, problem in zip(one.pings.due_s, one.pings.waited_s, one.pings.problem, strict=True)
        if from_s <= due_s < to_s
    ]
    if not waits:
        return None
    found = float(np.sort(waits)[min(len(waits) - 1, int(0.99 * len(waits)))])
    return None if found == np.inf else found
