"""Summarize the rounds of each server and fault as medians and a mark."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from under_siege.drill.faults import CONTROL, DEAD, FAULTS, HIDDEN, HURT, OK, UNMARKED
from under_siege.drill.incident_metrics import Figures
from under_siege.drill.injection import NEVER, UNDECIDED
from under_siege.record.case import Case
from under_siege.record.record import Incident
from under_siege.record.requests import CHECK, FAILED_OUTCOMES, LOAD

NOTHING_BEFORE = "no request was answered before the fault, so its effect on the rate is unknown; use a shorter task"


@dataclass(frozen=True, slots=True)
class FaultOutcome:
    """The outcome of a fault on a server. Figures are medians over the rounds, or None if unknown or never reached."""

    case: Case
    title: str
    fault: str
    incidents: tuple[Incident, ...]
    figures: Figures = field(default_factory=dict)
    without: str = ""  # why the fault does not apply to the server
    failure: str = ""  # why the drill failed
    unusable: str = ""  # why no fault can be judged on this server; if set, `failure` is set, too

    @property
    def is_undecided(self) -> bool:
        """Return whether the drill was not able to inject a fault that may well harm the server."""
        return self.without in UNDECIDED

    @property
    def mark(self) -> str:
        """Return the mark, or an empty string for the control, an inapplicable fault or a failed drill."""
        mark = FAULTS[self.fault].mark(self.figures) if self.figures else UNMARKED
        has_failed = any(incident.has_recovered is False for incident in self.incidents)
        return HURT if mark == OK and has_failed else mark


def fault_outcomes(incidents: Iterable[Incident]) -> list[FaultOutcome]:
    """Return the outcome of each fault on each server, sorted by server number and fault."""
    groups: dict[tuple[Case, str], list[Incident]] = {}
    for incident in incidents:
        if incident.fault in FAULTS:  # other versions may define other faults
            groups.setdefault((incident.case.without(["task", "users"]), incident.fault), []).append(incident)
    order = list(FAULTS)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0].sort_key, order.index(item[0][1])))
    unusable = {case: _why_unusable(rounds) for (case, fault), rounds in ordered if fault == CONTROL}
    return [_outcome(case, fault, rounds, unusable.get(case, "")) for (case, fault), rounds in ordered]


def exit_code_of(outcomes: Sequence[FaultOutcome]) -> int:
    """Return 1 if any drill failed or any fault left a server dead, else 3 if any is undecided, and 0 otherwise."""
    if any(outcome.failure or outcome.mark in (DEAD, HIDDEN) for outcome in outcomes):
        return 1
    return 3 if any(outcome.is_undecided for outcome in outcomes) else 0


def _why_unusable(control: Sequence[Incident]) -> str:
    """If requests failed in the control, return why faults can't be judged; otherwise, return an empty string."""
    outcomes = [outcome for incident in control for outcome in incident.requests.only(LOAD, CHECK).outcome]
    failed = sum(outcome in FAILED_OUTCOMES for outcome in outcomes)
    return f"{failed} of {len(outcomes)} requests failed in the control, before any fault" if failed else ""


def _outcome(case: Case, fault: str, rounds: Sequence[Incident], unusable: str) -> FaultOutcome:
    without = next((incident.without for incident in rounds if incident.without), "")
    failure = next((incident.failure.message for incident in rounds if incident.failure), "") or unusable
    sound = [figures_of(incident) for incident in rounds if not (incident.without or incident.failure or unusable)]
    without = "" if sound else without
    if fault != CONTROL and sound and not any(figures.get("before_per_s", 1.0) for figures in sound):
        failure, sound = failure or NOTHING_BEFORE, []  # a rate of 0 would seem to recover at once, or to be lost
    return FaultOutcome(
        case=case,
        title=rounds[0].title,
        fault=fault,
        incidents=tuple(rounds),
        figures=_medians(sound),
        without=without,
        failure=failure,
        unusable=unusable,
    )


def _medians(rounds: Sequence[Figures]) -> Figures:
    """Return the upper median of each figure, counting None (never reached) as infinite."""
    names = dict.fromkeys(name for figures in rounds for name in figures)
    medians: Figures = {}
    for name in names:
        values = sorted(np.inf if (value := figures[name]) is None else value for figures in rounds if name in figures)
        median = values[len(values) // 2]
        medians[name] = None if median == np.inf else float(median)
    return medians


def figures_of(incident: Incident) -> Figures:
    """Return the figures of one incident, with None for times that were never reached."""
    seen = incident.seen.items()
    figures = FAULTS[incident.fault].measure(incident)
    figures |= {name: None if value == NEVER and name.endswith("_s") else value for name, value in seen}
    if incident.has_recovered is not None:
        figures["failed_after"] = float(
            sum(outcome in FAILED_OUTCOMES for outcome in incident.requests.only(CHECK).outcome)
        )
    if incident.has_recovered is False:
        figures |= dict.fromkeys({"whole_s", "quick_s"} & figures.keys())
    return figures
