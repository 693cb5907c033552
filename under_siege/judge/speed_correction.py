"""Estimate the rates and CPU times that servers would have had on an undisturbed machine.

Three disturbances are measured during each siege: changes in the CPU speed (noisy neighbours, heat, batteries), CPU
time taken by the hypervisor (steal time), and CPU time used by other programs. Rates are computed on a clock that runs
at the speed of the CPUs, and then corrected for lost CPU time. The speed is a control variate (Lavenberg and Welch,
Management Science 27, 1981). Its coefficient is estimated from the rounds, with a prior for CPU-bound, I/O-bound or
mixed work. The uncertainty of each correction adds to the variance of the round, so disturbed rounds count less.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import NamedTuple

import numpy as np

from under_siege.judge.round_statistics import Round

Case = Sequence[Round]

# Uncertainties estimated from recorded runs on noisy machines (docs/noise.md).
BETWEEN_ROUNDS = 0.045  # standard deviation of a rate's logarithm between rounds, used only to estimate the coefficient
BETWEEN_SIEGES = 0.10  # standard deviation of the coefficient between sieges
UNCERTAIN_LOSS = 0.4  # relative error of the correction for lost CPU time
UNCERTAIN_WAIT = 0.1  # relative error for time lost to other programs, if the kernel reports how long threads waited
# Share of all CPU time that other programs use even on a quiet machine; rates are not corrected for it.
USUAL_OTHER_WORK = 0.02
MOST_LOST = 0.9
SURE_ERRORS = 3.0  # standard errors beyond which the effect of a server's own load on the CPU speed is significant
ONE_MORE = 1.1  # tolerance for inexact clocks: a server that can use one CPU may seem to use 1.1 CPUs
# A task is CPU-bound if its CPU time per wall time is at least MOSTLY, and I/O-bound if this ratio is at most
# HARDLY.
MOSTLY, HARDLY = 0.9, 0.1
SATURATED, HALF_IDLE = 0.9, 0.5  # the same limits for a server with an unknown task, as a share of the available CPUs
MOST_SLOPE = 1.1  # maximum slope, because a disturbance slows a task hardly more than it slows the speed probe


class Slope(NamedTuple):
    """How strongly a metric depends on the speed: the slope in a log-log plot, and the variance of this slope."""

    value: float = 0.0
    variance: float = math.inf


class Prior(NamedTuple):
    """The slope that is assumed before any measurement, and its standard deviation."""

    value: float
    deviation: float


COMPUTES = Prior(0.9, 0.15)
WAITS = Prior(0.0, 0.05)
DOES_BOTH = Prior(0.5, 0.3)
NOT_CORRECTED = Slope(0.0, 0.0)


class _Fit(NamedTuple):
    """Whether a case is CPU-bound, I/O-bound or mixed, and the slopes of its rate and of its work per CPU second."""

    kind: Prior = DOES_BOTH
    rate: Slope = NOT_CORRECTED
    cpu: Slope = NOT_CORRECTED


@dataclass(frozen=True)
class CorrectedRound:
    """The metrics of a round at the usual speed, and the variance that the correction adds to their logarithms."""

    is_cpu_bound: bool  # whether the task or, if it is unknown, the server was found to be purely CPU-bound
    speed: float | None  # the machine's speed as a multiple of the usual speed
    lowest_and_highest: tuple[float, float] | None  # speeds in the steady part, as multiples of the usual speed
    coefficient: float  # how strongly the rate depends on the speed: 0 if not at all, about 1 if it is proportional
    cpu_coefficient: float  # how strongly the work per CPU second depends on the speed
    rate: float | None  # at the usual speed and without lost CPU time
    rate_variance: float
    single_round_variance: float
    cpu_s: float | None  # CPU time per transaction
    cpu_variance: float
    times: float  # by which a response time is multiplied: in a closed loop, it is inversely proportional to the rate


@dataclass(frozen=True)
class SpeedCorrection:
    """All rounds, corrected to the usual speed of the machine, which is the mean over all of them.

    A server's own load also changes the CPU speed: sibling threads share a core, and more active cores reduce the turbo
    frequency. This effect belongs to the strategy, so it is estimated but not corrected.
    """

    usual: float | None  # None if no speed is known
    rounds: Mapping[Round, CorrectedRound]
    usual_load: float
    error_of_load: float  # standard error of the effect of the load

    def shared_variance(self, case: Case) -> float:
        """Return the variance that all rounds share because the effect of their own load on the speed is uncertain."""
        by_load = (fmean(run.load_beside for run in case) - self.usual_load) * self.error_of_load
        return (self.rounds[case[0]].coefficient * by_load) ** 2


def fit_speed_correction(
    cases: Sequence[Case], *, beside: Sequence[Case] = (), corrected: bool = True
) -> SpeedCorrection:
    """Fit the coefficients to all cases, and correct each round.

    Args:
        beside: the cases of another result that needs the same scale.
        corrected: if False, only the speeds of the rounds are computed.
    """
    results = [_with_speed(cases), _with_speed(beside)]
    by_load, error_of_load = _slope_by_load(results)
    everything = [*cases, *beside]
    effects = {run: math.exp(by_load * run.load_beside) for case in everything for run in case}
    speeds = {run: run.speed / effect for run, effect in effects.items() if run.speed}
    known = [run for rounds in results for run in rounds]
    usual = fmean(speeds[run] for run in known) if known else None
    fits = _fits(everything, speeds) if corrected and usual else {}
    return SpeedCorrection(
        usual=usual,
        rounds={run: _corrected(run, fits.get(run, _Fit()), usual, effect) for run, effect in effects.items()},
        usual_load=fmean(run.load_beside for run in known) if known else 0.0,
        error_of_load=error_of_load,
    )


def _fits(cases: Sequence[Case], speeds: Mapping[Round, float]) -> dict[Round, _Fit]:
    """Fit one slope of the CPU time to each job, and one slope of the rate to its cases of the same kind."""
    fits = {}
    for job in dict.fromkeys(case[0].case.job for case in cases):
        of_job = [case for case in cases if case[0].case.job == job]
        cpu = _slope(of_job, speeds, _work_per_cpu_s, COMPUTES)
        task = _kind_of_task(of_job)
        kinds = [task or _kind_of_server(case) for case in of_job]
        for kind in dict.fromkeys(kinds):
            alike = [case for case, of_case in zip(of_job, kinds, strict=True) if of_case is kind]
            rate = _slope(alike, speeds, partial(_undisturbed, kind=kind), kind)
            if kind is WAITS and rate.value < HARDLY:
                rate = NOT_CORRECTED
            for run in itertools.chain(*alike):  # pauses and arrivals, not the speed, determine a paced rate
                fits[run] = _Fit(kind, NOT_CORRECTED if run.record.is_paced else rate, cpu)
    return fits


def _slope(
    cases: Sequence[Case], speeds: Mapping[Round, float], value_of: Callable[[Round], float | None], prior: Prior
) -> Slope:
    """Fit one slope to all cases, each centered, and shrink it towards the prior if there is little data."""
    products = squares = 0.0
    for case in cases:
        known = [(run, value) for run in case if run.speed and run.rate.per_s and (value := value_of(run))]
        if len(known) > 1:
            x = np.array([math.log(speeds[run]) for run, _ in known])
            y = np.array([math.log(value) for _, value in known])
            weights = np.array([1 / (1 + _variance_of_loss(run) / BETWEEN_ROUNDS**2) for run, _ in known])
            x, y = (column - float(weights @ column / weights.sum()) for column in (x, y))
            products, squares = products + float(x * weights @ y), squares + float(x * weights @ x)
    trust = BETWEEN_ROUNDS**2 / prior.deviation**2
    value = (products + prior.value * trust) / (squares + trust)
    return Slope(min(max(0.0, value), MOST_SLOPE), BETWEEN_ROUNDS**2 / (squares + trust))


def _corrected(run: Round, fit: _Fit, usual: float | None, effect_of_load: float) -> CorrectedRound:
    own_usual = usual and usual * effect_of_load
    speed = run.speed / effect_of_load / usual if run.speed and usual else None
    lowest_and_highest = None
    if run.lowest_and_highest is not None and own_usual:
        lowest_and_highest = run.lowest_and_highest[0] / own_usual, run.lowest_and_highest[1] / own_usual

    def variance_of(slope: Slope) -> float:
        uncertain = slope.variance + (BETWEEN_SIEGES**2 if slope.value else 0.0)
        return uncertain * math.log(speed or 1.0) ** 2

    on_clock = run.rate.per_s
    if fit.rate.value and own_usual and run.speeds is not None:
        on_clock = run.rate_on(run.speeds.clock(own_usual, fit.rate.value))
    dependence = min(1.0, fit.rate.value / COMPUTES.value)  # how strongly the rate depends on CPU time, from 0 to 1
    log_left = dependence * (math.log1p(-stolen(run)) + math.log1p(-taken_by_others(run)))
    rate = on_clock and on_clock * math.exp(-log_left)
    of_kind = 0.0
    if fit.kind is DOES_BOTH and dependence:
        # It is unknown how strongly the rate of a mixed workload depends on CPU time.
        of_kind = (DOES_BOTH.deviation / COMPUTES.value * log_left / dependence) ** 2

    used, cpu_s = run.cpus_used(), run.cpu_s_per_transaction()
    if fit.kind is COMPUTES and usual and on_clock and used and not run.totals and not run.record.is_paced:
        cpu_s = (
            used / on_clock
        )  # the number of CPUs in use does not depend on the speed, so only the rate adds an error
    elif cpu_s:
        cpu_s *= (speed or 1.0) ** fit.cpu.value
    return CorrectedRound(
        is_cpu_bound=fit.kind is COMPUTES,
        speed=speed,
        lowest_and_highest=lowest_and_highest,
        coefficient=fit.rate.value,
        cpu_coefficient=fit.cpu.value,
        rate=rate,
        rate_variance=dependence**2 * _variance_of_loss(run) + of_kind + variance_of(fit.rate) + run.rate.variance,
        single_round_variance=_single_round_variance(run, fit.kind),
        cpu_s=cpu_s,
        cpu_variance=variance_of(fit.cpu),
        times=run.rate.per_s / rate if rate and run.rate.per_s else 1.0,
    )


def _single_round_variance(run: Round, kind: Prior) -> float:
    """Return the variance of a rate's logarithm that the machine may have caused if there is no other round.

    Without a second round, nothing shows whether steal time and other programs cost the server as much as they
    used, more, or nothing, so the standard deviation is the size of the loss. Speed changes count as the standard
    error of the mean speed.
    """
    knows_work = run.record.alone_cpu_s or run.streams
    if run.record.is_paced or (knows_work and kind is WAITS):
        return 0.0
    variance = 0.0
    others = 0.0 if run.is_limited_by_its_quota() else other_work(run) - USUAL_OTHER_WORK
    for lost in (stolen(run), min(MOST_LOST, max(0.0, others))):
        variance += math.log1p(-lost) ** 2
    if run.speeds is not None:
        logs = np.log(run.speeds.moments(run.rate.from_s, run.load_s))
        variance += float(logs.var()) / len(logs)
    return variance


def _variance_of_loss(run: Round) -> float:
    """Return the variance of the logarithm of the correction for lost CPU time."""
    uncertain_wait = UNCERTAIN_LOSS if run.cpu_wanted() is None else UNCERTAIN_WAIT
    of_stolen = UNCERTAIN_LOSS * math.log1p(-stolen(run))
    of_taken = uncertain_wait * math.log1p(-taken_by_others(run))
    return of_stolen**2 + of_taken**2


def stolen(run: Round) -> float:
    """Return the steal time as a share of the CPU time of all CPUs."""
    machine = run.record.machine
    if machine is None or not machine.total_s or run.is_limited_by_its_quota():  # a quota counts only CPU time received
        return 0.0
    return min(MOST_LOST, machine.steal_s / machine.total_s)


def other_work(run: Round) -> float:
    """Return the share of all CPU time that programs outside the benchmark used, or 0 if it is unknown."""
    record, machine = run.record, run.record.machine
    if machine is None or not machine.total_s:
        return 0.0
    ours_s = sum(filter(None, (run.server_cpu_s(), record.tool_cpu_s, record.bench_cpu_s, record.services_cpu_s)))
    return max(0.0, (machine.busy_s - ours_s) / machine.total_s)


def taken_by_others(run: Round) -> float:
    """Return the share of a server's possible CPU time that it lost to other programs.

    The loss is at most the time that the server's threads waited for a CPU, which the kernel counts.
    """
    machine, used = run.record.machine, run.cpus_used()
    wanted = run.cpu_wanted()
    if machine is None or not machine.total_s or not used or wanted is None or run.is_limited_by_its_quota():
        return 0.0
    cpus = machine.total_s / (run.load_s or machine.total_s) - run.record.load_cpus
    cpus = min(cpus, run.quota or math.inf)
    others = (other_work(run) - USUAL_OTHER_WORK) * cpus
    usable = min(1.0 if _is_limited_by_the_gil(run, used) else cpus, wanted)
    lost = max(0.0, min(others, usable - used))
    return min(MOST_LOST, lost / (used + lost))


def _is_limited_by_the_gil(run: Round, used: float) -> bool:
    """Return whether a server is one process that uses at most one CPU, and whose threads are not all constantly awake.

    A thread that waits for the GIL wakes up repeatedly and then waits for a CPU that it can't use. If the task releases
    the GIL instead, all threads run or wait for a CPU all the time.
    """
    record = run.record
    busy_threads = min(record.workers or 1, record.users or 1)
    are_all_awake = busy_threads > 1 and (run.cpu_wanted() or 0.0) >= MOSTLY * busy_threads
    is_one_process = set(record.samples.processes) == {1} and record.gil is not False
    return is_one_process and used <= ONE_MORE and not are_all_awake


def _with_speed(cases: Sequence[Case]) -> list[Round]:
    """Return the rounds with a known speed, in the order in which they were measured."""
    known = [run for case in cases for run in case if run.speed and run.completed]
    return sorted(known, key=lambda run: run.record.load_began_s or 0.0)


def _work_per_cpu_s(run: Round) -> float | None:
    used_s = run.cpu_s_per_transaction()
    return used_s and 1 / used_s


def _undisturbed(run: Round, kind: Prior) -> float | None:
    """Correct the rate for lost CPU time, so that only its dependence on the speed remains."""
    left = (1 - stolen(run)) * (1 - taken_by_others(run))
    return run.rate.per_s and run.rate.per_s / left ** min(1.0, kind.value / COMPUTES.value)


def _kind_of_task(cases: Sequence[Case]) -> Prior | None:
    """Return whether a task is CPU-bound, I/O-bound or mixed, or None if the task was never timed alone.

    On a busy machine, even CPU-bound tasks wait for a CPU, so the run with the shortest wait decides. If the bench has
    a CPU quota of less than one CPU, they use a CPU for at most this share of the time.
    """
    shares = [
        cpu_s / wall_s / min(1.0, run.quota_of_the_bench or 1.0)
        for run in itertools.chain(*cases)
        for wall_s, cpu_s in zip(run.record.alone_wall_s, run.record.alone_cpu_s, strict=False)
        if wall_s
    ]
    return _kind(max(shares), MOSTLY, HARDLY) if shares else None


def _kind_of_server(case: Case) -> Prior:
    """Return whether a server with an unknown task is CPU-bound, I/O-bound or mixed, from its share of the CPUs."""
    shares = []
    for run in case:
        machine, used = run.record.machine, run.cpus_used()
        if machine is not None and used and run.load_s:
            used += (run.record.services_cpu_s or 0.0) / run.load_s
            usable = max(1.0, min(machine.total_s / run.load_s, math.ceil(used / ONE_MORE)))
            shares.append(used / min(usable, run.quota or math.inf))
    return _kind(fmean(shares), SATURATED, HALF_IDLE) if shares else DOES_BOTH


def _kind(share: float, computes: float, waits: float) -> Prior:
    if share >= computes:
        return COMPUTES
    return WAITS if share <= waits else DOES_BOTH


def _slope_by_load(results: Sequence[Sequence[Round]]) -> tuple[float, float]:
    """Return the slope of the logarithm of the speed over the load on the other CPUs, and this slope's standard error.

    Both are 0 if the speed does not fall significantly. Each result is centered, because speed differences between
    results are not caused by the load.
    """
    centered = []
    for rounds in results:
        loads = np.array([run.load_beside for run in rounds])
        speeds = np.log([run.speed for run in rounds if run.speed])
        if len(loads) >= 4 and np.ptp(loads) >= 0.1:
            centered.append((loads - loads.mean(), speeds - speeds.mean()))
    if not centered:
        return 0.0, 0.0
    x, y = (np.concatenate(column) for column in zip(*centered, strict=True))
    slope = float(x @ y / (x @ x))
    error = (float(((y - slope * x) ** 2).sum()) / (len(x) - 1 - len(centered)) / float(x @ x)) ** 0.5
    return (slope, error) if slope < -SURE_ERRORS * error else (0.0, 0.0)
