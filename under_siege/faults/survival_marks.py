"""What becomes of a server when something goes wrong: a mark for each fault, and what the marks mean."""

from dataclasses import dataclass

from under_siege.faults.fault import FAULTS
from under_siege.faults.fault_metrics import Drilled, drilled
from under_siege.model.record import Result

OK, HURT, DEAD, HIDDEN, NONE = "ok", "hurt", "dead", "ping_fine_work_dead", ""
PING_FINE_S = 0.1  # a health check that is answered within this is content
WHOLE_WITHIN_S = 1.0
GRACE_S, IN_TIME_S = 5.0, 1.0  # that a server has, and how much later it may end
LEFT_DEAD, LEFT_OK = 0.05, 0.3  # of the rate
CPU_FOR_NOBODY = 0.15  # of what all who left had asked for
TASKS_LONGER = 2.0  # the next one may wait, beside its own
FEW = 1.0  # requests that may be lost with a worker


@dataclass(frozen=True, slots=True)
class Cell:
    """A server under one fault, and how it did."""

    drilled: Drilled
    mark: str  # empty where the fault can't happen, or where it could not be tried


def cells_of(result: Result) -> list[Cell]:
    """All of them, each with its mark."""
    return [Cell(one, _mark(one)) for one in drilled(result.incidents)]


def exit_code(result: Result) -> int:
    """1 if a server could not be drilled, or survives something not at all; else 0: that it is hurt is its nature."""
    cells = cells_of(result)
    return 1 if any(one.drilled.failure or one.mark in (DEAD, HIDDEN) for one in cells) else 0


def _mark(one: Drilled) -> str:
    if not one.has_figures or one.fault not in _MARKS:
        return NONE
    mark: str = _MARKS[one.fault](one)
    has_failed = any(each.has_recovered is False for each in one.incidents)
    return HURT if mark == OK and has_failed else mark


def _dead(ping_s: float | None) -> str:
    return HIDDEN if ping_s is not None and ping_s <= PING_FINE_S else DEAD


def _worker(one: Drilled) -> str:
    whole_s, lost = one.figures["whole_s"], one.figures["lost"] or 0
    if whole_s is None:
        return _dead(one.figures.get("ping_p99_s"))
    return OK if whole_s <= WHOLE_WITHIN_S and lost <= FEW else HURT


def _stop(one: Drilled) -> str:
    figures = one.figures
    if figures.get("exit") is None:
        return DEAD
    return OK if not figures["begun_lost"] and figures.get("exit") == 0 else HURT


def _stop_long(one: Drilled) -> str:
    """Its tasks can't be finished within the grace: it has to end in time, and to say what it dropped."""
    if one.figures.get("exit") is None:
        return DEAD
    in_time = (one.figures["exit_s"] or 0.0) <= GRACE_S + IN_TIME_S
    return OK if in_time and one.figures.get("exit") == 0 and one.figures["lines"] else HURT


def _leave(one: Drilled) -> str:
    figures = one.figures
    next_s, task_s, asked_s = figures["next_s"], figures["task_s"] or 0.0, figures["asked_cpu_s"] or 0.0
    if next_s is None:
        return DEAD
    spared = (figures["cpu_s"] or 0.0) <= CPU_FOR_NOBODY * asked_s
    return OK if spared and next_s <= (1 + TASKS_LONGER) * task_s + PING_FINE_S else HURT


def _overload(one: Drilled) -> str:
    figures = one.figures
    if figures["quick_s"] is None:
        return DEAD
    unanswered = sum(figures[name] or 0 for name in ("lost", "wrong", "late"))
    return OK if not unanswered and figures["quick_s"] <= WHOLE_WITHIN_S else HURT


def _endless(one: Drilled) -> str:
    """The graver of one task that never ends, and of one for each worker."""
    marks = []
    for name in ("one", "all"):
        left = one.figures.get(f"{name}_left") or 0.0
        ping_s = one.figures.get(f"{name}_ping_p99_s")
        marks.append(_dead(ping_s) if left < LEFT_DEAD else OK if left >= LEFT_OK else HURT)
    return max(marks, key=[OK, HURT, DEAD, HIDDEN].index)


def _slow(one: Drilled) -> str:
    left = one.figures["left"] or 0.0
    return _dead(one.figures.get("ping_p99_s")) if left < LEFT_DEAD else OK if left >= LEFT_OK else HURT


def _malformed(one: Drilled) -> str:
    figures = one.figures
    if not figures["alive"]:
        return DEAD
    return OK if not figures["lines"] and not figures["smuggled"] else HURT


def _jobs(one: Drilled) -> str:
    """What it has said yes to has to be answered; to lose it is less than to take no more."""
    return DEAD if not one.figures["takes_new"] else HURT if one.figures["lost"] else OK


_MARKS = {
    "worker": _worker,
    "stop": _stop,
    "stop_long": _stop_long,
    "leave": _leave,
    "overload": _overload,
    "endless": _endless,
    "slow": _slow,
    "malformed": _malformed,
    **dict.fromkeys((name for name in FAULTS if name.startswith("jobs_")), _jobs),
}
