"""How far a busy machine may have carried a figure: bounds from what was measured beside it, and not from the figure.

A server gets no more than what others leave it. With nothing else to do the machine would have given it that, too:
so it can't have been slowed down by more than 1 / (1 - share of the CPUs that went elsewhere), the machine's own
changes of speed apart. Nor by more than until all its workers compute all the time; and where the task only waits,
until all who may wait at once do nothing else. A ping waits beside that until somebody looks after it: the bench knows
how late it was itself in sending it, and a ping needs the CPU three times: to be sent, answered, and received.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from common.lesson.amount import AS_IT_IS
from common.report import numbers
from common.report.figures.rounds import Round
from common.report.figures.speed_correction import SpeedCorrection, other_work
from common.report.judging.evidence import OTHER_WORK
from common.report.judging.summary import Summary
from common.report.judging.verdict import UNCLEAR
from common.report.words.notes import CHANGED

# What makes a case unclear and is no fault of it: the machine was busy, or its speed changed.
NOISE = {"busy_machine", "unsteady_machine", "blind", "doubtful_ceiling", "unsteady_ceiling"}
TURNS_OF_A_PING = 3
HARDLY = 0.05  # of what it waits: a task that computes less than that only waits
NOT_OF_TIME = ("memory_bytes", "availability_pct", "of_ceiling")


def is_noisy(case: Summary) -> bool:
    """Whether nothing but noise speaks against it."""
    return case.verdict == UNCLEAR and {one.code for one in case.reasons} <= NOISE


def leeway(
    figure: str, value_s: float | None, rounds: Sequence[Round], correction: SpeedCorrection
) -> tuple[float, float]:
    """From where to where a figure may be on a quiet machine, as multiples of what was measured in these rounds."""
    if figure in NOT_OF_TIME:
        return AS_IT_IS
    slowed = max(map(slowdown, rounds))
    slowest, fastest = _speeds(rounds, correction)
    if figure == "rate_per_s":
        return 1 / fastest, slowed / slowest
    late = TURNS_OF_A_PING * _late_s(figure, rounds) / value_s if value_s and figure.startswith("ping_") else 0.0
    return max(0.0, slowest / slowed - late), fastest


def leeway_alone(alone_s: float, rounds: Sequence[Round], correction: SpeedCorrection) -> tuple[float, float]:
    """The same of what the task takes alone: no less than what it waits and computes, no more than the quickest run."""
    runs = [run for one in rounds for run in zip(one.record.alone_wall_s, one.record.alone_cpu_s, strict=False)]
    if not runs:
        return AS_IT_IS
    slowest, fastest = _speeds(rounds, correction)
    least_s = max(0.0, min(wall_s - cpu_s for wall_s, cpu_s in runs)) + min(cpu_s for _, cpu_s in runs) * slowest
    most_s = min(wall_s for wall_s, _ in runs) * fastest
    return min(least_s, most_s) / alone_s, most_s / alone_s


def _speeds(rounds: Sequence[Round], correction: SpeedCorrection) -> tuple[float, float]:
    """The slowest and the fastest of the rounds, as multiples of the usual speed."""
    speeds = [speed for one in rounds if (speed := correction.speed(one))] or [1.0]
    return min(*speeds, 1.0), max(*speeds, 1.0)


def slowdown(one: Round) -> float:
    """How many times as fast it may have been with the whole machine."""
    machine = one.record.machine
    if machine is None:
        return 1.0
    if not machine.total_s or not one.record.load_s:
        return math.inf
    cpus = machine.total_s / one.record.load_s
    usable = min(cpus, len(one.speeds.cpus)) if one.speeds else cpus  # the others may all have been on these
    elsewhere = without((other_work(one) + machine.steal_s / machine.total_s) * cpus / usable)
    return max(1.0, min(elsewhere, _until_all_compute(one, usable), _until_all_wait(one)))


def _until_all_compute(one: Round, cpus: float) -> float:
    """The CPUs that its workers can use at the most, as a multiple of those that it did."""
    used_s = one.server_cpu_s()
    if not used_s or not one.record.load_s:
        return math.inf
    return min(one.record.workers or cpus, cpus) * one.record.load_s / used_s


def _until_all_wait(one: Round) -> float:
    """The rate of a task that hardly computes if its seats are taken all the time, as a multiple of what it was."""
    record = one.record
    waits_s = [wall_s - cpu_s for wall_s, cpu_s in zip(record.alone_wall_s, record.alone_cpu_s, strict=False)]
    if not waits_s or not one.rate.per_s or max(record.alone_cpu_s) > HARDLY * min(waits_s):
        return math.inf
    # A single worker may be a loop in which all users wait; no wait is known better than to some milliseconds.
    seats = record.users if record.workers in (None, 1) else min(record.users, record.workers or record.users)
    return (1 + HARDLY) * seats / min(waits_s) / one.rate.per_s


def without(share: float) -> float:
    """How many times as much there is where nobody takes this share."""
    return 1 / (1 - share) if share < 1 else math.inf


def _late_s(figure: str, rounds: Sequence[Round]) -> float:
    """How late the pings were sent that were sent late, by the same percentile."""
    percent = {"p50": 50.0, "p95": 95.0, "p99": 99.0}.get(figure.removesuffix("_s").partition("_")[2], 100.0)
    late_s = [
        np.asarray(one.record.pings.sent_s) - np.asarray(one.record.pings.due_s)
        for one in rounds
        if one.record.pings.sent_s
    ]
    return max((float(np.percentile(each, percent)) for each in late_s), default=0.0)


def said(rounds: Sequence[Round], correction: SpeedCorrection) -> str:
    """What else the machine did, in words."""
    others = max(map(other_work, rounds))
    if others > OTHER_WORK:
        return f"other programs took up to {numbers.share(others)} of the CPUs"
    stolen = max(one.record.machine.steal_s / one.record.machine.total_s for one in rounds if one.record.machine)
    if stolen > OTHER_WORK / 5:
        return f"other guests of the same host took up to {numbers.share(stolen)} of the CPUs"
    moments = [edge for one in rounds for edge in correction.lowest_and_highest(one) or ()]
    if moments and max(moments) >= CHANGED * min(moments):
        return f"the machine was {numbers.significant(max(moments) / min(moments), 2)} times as fast at some moments"
    return "the machine was too unsteady"
