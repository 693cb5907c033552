"""Estimate the rates and CPU times that an undisturbed machine would have had.

CPUs change their speed (noisy neighbours, heat, batteries), hypervisors take CPU time away (steal time), and other
programs use it. All three are measured during each siege. Rates are computed on a clock that follows the speed of the
CPUs, and lost CPU time is a covariate. How far a rate follows the speed is a control variate (Lavenberg and Welch,
Management Science 27, 1981), estimated from the rounds with a prior that depends on the server. The uncertainty of a
correction is returned as variance, so a disturbed round counts less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from under_siege.stats.rounds_data import Round

Case = Sequence[Round]

# Standard deviations of logarithms, from recorded runs on noisy machines (docs/noise.md).
BETWEEN_ROUNDS = 0.045  # usual deviation of a rate between rounds, used only to weigh the prior of the coefficient
BETWEEN_SIEGES = 0.10  # standard deviation of the coefficient itself
UNCERTAIN_LOSS = 0.4  # uncertainty of the correction for steal time, as a share of it
UNCERTAIN_WAIT = 0.1  # the same of the correction for waiting for a CPU, if the kernel counts that
# Other programs always take a little: this share of all CPUs costs nothing.
USUAL_OTHER_WORK = 0.02
MOST_LOST = 0.9
SURE_ERRORS = 3.0  # standard errors; beyond them, the load of a server itself slows down the CPUs
ONE_MORE = 1.1  # CPUs in use for each CPU that a server can use: clocks are not exact
MOSTLY, HARDLY = 0.9, 0.1  # share of its time that a task uses the CPU
SATURATED, HALF_IDLE = 0.9, 0.5  # share of the available CPUs that a server without a known task uses


MOST_SLOPE = 1.1  # a disturbance hardly slows a task more than the speed probe


class Slope(NamedTuple):
    """How far the logarithm of a figure follows that of the speed, and how uncertain that is."""

    value: float = 0.0
    variance: float = math.inf


class Prior(NamedTuple):
    """A slope before anything was measured."""

    value: float
    deviation: float


COMPUTES, WAITS, DOES_BOTH = Prior(0.9, 0.15), Prior(0.0, 0.05), Prior(0.5, 0.3)
NOT_CORRECTED = Slope(0.0, 0.0)


class SpeedCorrection:
    """The usual speed, which is the mean over all rounds, and how far each figure of each case follows the speed.

    What a server's own load does to the speed (a busy sibling on the same core, less turbo where more cores compute) is
    part of the truth of that strategy: it is estimated and left in.
    """

    def __init__(self, cases: Sequence[Case], *, beside: Sequence[Case] = (), corrected: bool = True) -> None:
        """Fit the coefficients.

        Args:
            cases: the rounds of each case.
            beside: cases of another result of the same machine, to be put on the same scale.
            corrected: False leaves all figures as they were measured.
        """
        sittings = [_with_speed(of_result) for of_result in (cases, beside)]
        known = [one for rounds in sittings for one in rounds]
        self._by_load, self._error_of_load = _slope_by_load(sittings)
        self._usual_load = fmean(one.load_beside for one in known) if known else 0.0
        self.usual = fmean(self._speed_of(one) for one in known) if known else None
        self._rates: dict[int, Slope] = {}
        self._cpu: dict[int, Slope] = {}
        self._kinds: dict[int, Prior] = {}
        self._adjusted: dict[int, float | None] = {}
        if corrected and self.usual:
            self._fit([*cases, *beside])

    def speed(self, one: Round) -> float | None:
        """Return the machine's speed in a round as a multiple of the usual one."""
        return self._speed_of(one) / self.usual if one.speed and self.usual else None

    def lowest_and_highest(self, one: Round) -> tuple[float, float] | None:
        """Return the extremes of the speed over the steady part, as multiples of the usual speed."""
        if one.lowest_and_highest is None or not self.usual:
            return None
        lowest, highest = one.lowest_and_highest
        usual = self.usual * self._of_load(one.load_beside)
        return lowest / usual, highest / usual

    def coefficient(self, one: Round) -> float:
        """Return how far the rate follows the speed: 0 if it does not, about 1 if it is proportional."""
        return self._rates.get(id(one), NOT_CORRECTED).value

    def cpu_coefficient(self, one: Round) -> float:
        """Return how far the work that is done in a CPU second follows the speed."""
        return self._cpu.get(id(one), NOT_CORRECTED).value

    def slopes(self, one: Round) -> tuple[Slope, Slope]:
        """Return both coefficients with their variances."""
        return self._rates.get(id(one), Slope()), self._cpu.get(id(one), Slope())

    def rate(self, one: Round) -> float | None:
        """Return the rate at the usual speed, had no CPU time been lost."""
        on_clock = self._on_clock(one)
        return on_clock and on_clock * math.exp(-self._lost(one))

    def rate_variance(self, one: Round) -> float:
        """Return what the uncertainty of the correction adds to the variance of the logarithm of a round's rate."""
        slope = self._rates.get(id(one), NOT_CORRECTED)
        off = math.log(self.speed(one) or 1.0)
        uncertain = slope.variance + (BETWEEN_SIEGES**2 if slope.value else 0.0)
        return self._hangs(one) ** 2 * _variance_of_loss(one) + self._variance_of_hanging(one) + uncertain * off**2

    def _variance_of_hanging(self, one: Round) -> float:
        """Return what it adds that nobody knows how far the rate of a case of mixed kind depends on CPU time."""
        if self._kind_of(one) is not DOES_BOTH or not self._hangs(one):
            return 0.0
        return (DOES_BOTH.deviation / COMPUTES.value * self._lost(one) / self._hangs(one)) ** 2

    def shared_variance(self, case: Case) -> float:
        """Return the variance that all rounds of a case have in common, from what its own load does to the speed."""
        by_load = (fmean(one.load_beside for one in case) - self._usual_load) * self._error_of_load
        return (self.coefficient(case[0]) * by_load) ** 2

    def cpu_s(self, one: Round) -> float | None:
        """Return the CPU time of a transaction at the usual speed."""
        on_clock, used = self._on_clock(one), one.cpus_used()
        if self._kind_of(one) is COMPUTES and self.usual and on_clock and used and not one.totals:
            return used / on_clock  # CPUs in use have no speed in them, so only the error of the rate is left
        used_s = one.cpu_s_per_transaction()
        return used_s and used_s * (self.speed(one) or 1.0) ** self.cpu_coefficient(one)

    def cpu_variance(self, one: Round) -> float:
        """Return what the uncertainty of the correction adds to the variance of the logarithm of that."""
        slope = self._cpu.get(id(one), NOT_CORRECTED)
        uncertain = slope.variance + (BETWEEN_SIEGES**2 if slope.value else 0.0)
        return uncertain * math.log(self.speed(one) or 1.0) ** 2

    def response_s(self, one: Round, seconds: float | None) -> float | None:
        """Return what a response time would be: in a closed loop it is the users divided by the rate."""
        rate = self.rate(one)
        return seconds and seconds * (one.rate.per_s / rate if rate and one.rate.per_s else 1.0)

    def _on_clock(self, one: Round) -> float | None:
        if id(one) not in self._adjusted:
            coefficient, rate = self.coefficient(one), one.rate.per_s
            if coefficient and self.usual and one.speeds is not None:
                usual = self.usual * self._of_load(one.load_beside)
                rate = one.rate_on(one.speeds.clock(usual, coefficient))
            self._adjusted[id(one)] = rate
        return self._adjusted[id(one)]

    def _hangs(self, one: Round) -> float:
        """Return how far the rate depends on CPU time."""
        return min(1.0, self.coefficient(one) / COMPUTES.value)

    def _lost(self, one: Round) -> float:
        """Return the logarithm of the share of the rate that lost CPU time has left."""
        return self._hangs(one) * (math.log1p(-stolen(one)) + math.log1p(-taken_by_others(one)))

    def _speed_of(self, one: Round) -> float:
        """Return the speed without what the server's own load makes of it."""
        assert one.speed is not None
        return one.speed / self._of_load(one.load_beside)

    def _of_load(self, load: float) -> float:
        return math.exp(self._by_load * load)

    def _fit(self, cases: Sequence[Case]) -> None:
        for job in dict.fromkeys(case[0].case.job for case in cases):
            of_job = [case for case in cases if case[0].case.job == job]
            known = [[one for one in case if one.speed and one.rate.per_s] for case in of_job]
            cpu = self._slope([[(one, _work_per_cpu_s(one)) for one in case] for case in known], COMPUTES)
            task = _kind_of_task(of_job)
            kinds = [task or _kind_of_server(case) for case in of_job]
            for kind in dict.fromkeys(kinds):
                alike = [case for case, of_case in zip(known, kinds, strict=True) if of_case is kind]
                rate = self._slope([[(one, _undisturbed(one, kind)) for one in case] for case in alike], kind)
                if kind is WAITS and rate.value < HARDLY:
                    rate = NOT_CORRECTED
                for case, of_case in zip(of_job, kinds, strict=True):
                    if of_case is kind:
                        self._keep(case, kind, rate, cpu)

    def _keep(self, case: Case, kind: Prior, rate: Slope, cpu: Slope) -> None:
        for one in case:
            self._kinds[id(one)], self._rates[id(one)], self._cpu[id(one)] = kind, rate, cpu

    def _kind_of(self, one: Round) -> Prior:
        return self._kinds.get(id(one), DOES_BOTH)

    def _slope(self, cases: Sequence[Sequence[tuple[Round, float | None]]], prior: Prior) -> Slope:
        """Return the slope within the cases, drawn towards the prior as far as the rounds say little."""
        products = squares = 0.0
        for case in cases:
            rows = [
                (math.log(self._speed_of(one)), math.log(value), 1 / (1 + _variance_of_loss(one) / BETWEEN_ROUNDS**2))
                for one, value in case
                if value
            ]
            if len(rows) > 1:
                x, y, weights = (np.array(column) for column in zip(*rows, strict=True))
                x, y = (column - float(weights @ column / weights.sum()) for column in (x, y))
                products, squares = products + float(x * weights @ y), squares + float(x * weights @ x)
        trust = BETWEEN_ROUNDS**2 / prior.deviation**2
        value = (products + prior.value * trust) / (squares + trust)
        return Slope(min(max(0.0, value), MOST_SLOPE), BETWEEN_ROUNDS**2 / (squares + trust))


def _variance_of_loss(one: Round) -> float:
    """Return the variance of the logarithm of the share of its CPU time that a server has lost."""
    waiting = UNCERTAIN_LOSS if one.cpu_wanted() is None else UNCERTAIN_WAIT
    of_stolen, of_taken = UNCERTAIN_LOSS * math.log1p(-stolen(one)), waiting * math.log1p(-taken_by_others(one))
    return float(of_stolen**2 + of_taken**2)


def stolen(one: Round) -> float:
    """Return the share of all CPUs that other guests of the host took."""
    machine = one.record.machine
    return min(MOST_LOST, machine.steal_s / machine.total_s) if machine and machine.total_s else 0.0


def other_work(one: Round) -> float:
    """Return the share of all CPUs that neither the server nor this program used; 0 where that isn't known."""
    record, machine = one.record, one.record.machine
    if machine is None or not machine.total_s:
        return 0.0
    ours_s = sum(filter(None, (one.server_cpu_s(), record.tool_cpu_s, record.bench_cpu_s, record.services_cpu_s)))
    return max(0.0, (machine.busy_s - ours_s) / machine.total_s)


def taken_by_others(one: Round) -> float:
    """Return the share of the CPU time a server could have used that other programs took from it.

    The kernel counts how long threads wait for a CPU. In older results it is at most what others used while no CPU was
    idle, and what is missing to the CPUs that the server could use.
    """
    machine, used = one.record.machine, one.cpus_used()
    if machine is None or not machine.total_s or not used:
        return 0.0
    cpus = machine.total_s / (one.load_s or machine.total_s)
    others, wanted = (other_work(one) - USUAL_OTHER_WORK) * cpus, one.cpu_wanted()
    if wanted is None:
        lost = min(others - (machine.idle_s or 0.0) / (one.load_s or 1.0), usable_cpus_of(one, cpus) - used)
    else:
        lost = min(others, min(1.0 if _is_limited_by_the_gil(one, used) else cpus, wanted) - used)
    return min(MOST_LOST, max(0.0, lost) / (used + max(0.0, lost)))


def _is_limited_by_the_gil(one: Round, used: float) -> bool:
    """Return whether a server is one process that never used more than one CPU, and whose threads mostly sleep.

    Threads that wait for the GIL wake up and wait for a CPU, too, but couldn't use it. If the task releases the GIL,
    all threads run or wait for a CPU all the time.
    """
    busy_threads = min(one.record.workers or 1, one.record.users or 1)
    are_all_awake = busy_threads > 1 and (one.cpu_wanted() or 0.0) >= MOSTLY * busy_threads
    return (
        set(one.record.samples.processes) == {1}
        and one.record.gil is not False
        and used <= ONE_MORE
        and not are_all_awake
    )


def usable_cpus_of(one: Round, cpus: float) -> float:
    """Return how many CPUs a server can use: as many as it has workers, or about as many as it did use."""
    used, workers = one.cpus_used() or 0.0, one.record.workers
    if workers is not None and workers < cpus and not one.record.is_ceiling:
        return float(workers)
    whole = float(round(used))
    return whole if whole and abs(used - whole) <= (ONE_MORE - 1) * whole else cpus


def _with_speed(cases: Sequence[Case]) -> list[Round]:
    """Return the rounds of a result whose speed is known, in the order in which they were measured."""
    known = [one for case in cases for one in case if one.speed and one.completed]
    return sorted(known, key=lambda one: one.record.load_began_s or 0.0)


def _undisturbed(one: Round, kind: Prior) -> float | None:
    """Return the rate had no CPU time been lost, as far as it depends on that, to compare with the speed."""
    left = (1 - stolen(one)) * (1 - taken_by_others(one))
    return one.rate.per_s and one.rate.per_s / left ** min(1.0, kind.value / COMPUTES.value)


def _work_per_cpu_s(one: Round) -> float | None:
    used_s = one.cpu_s_per_transaction()
    return used_s and 1 / used_s


def _kind_of_task(cases: Sequence[Case]) -> Prior | None:
    """Return what a task does when it runs alone; None if that wasn't measured.

    On a busy machine a task that computes also waits for a CPU, so the run that waited least tells.
    """
    records = [one.record for case in cases for one in case]
    runs = [run for one in records for run in zip(one.alone_wall_s, one.alone_cpu_s, strict=False)]
    shares = [cpu_s / wall_s for wall_s, cpu_s in runs if wall_s]
    return _kind(max(shares), MOSTLY, HARDLY) if shares else None


def _kind_of_server(case: Case) -> Prior:
    """Return what a server does that has no known task, by how much of the CPUs it uses."""
    shares = []
    for one in case:
        machine, used = one.record.machine, one.cpus_used()
        if machine is not None and used and one.load_s:
            used += (one.record.services_cpu_s or 0.0) / one.load_s
            shares.append(used / max(1.0, min(machine.total_s / one.load_s, math.ceil(used / ONE_MORE))))
    return _kind(fmean(shares), SATURATED, HALF_IDLE) if shares else DOES_BOTH


def _kind(share: float, computes: float, waits: float) -> Prior:
    return COMPUTES if share >= computes else WAITS if share <= waits else DOES_BOTH


def _slope_by_load(sittings: Sequence[Sequence[Round]]) -> tuple[float, float]:
    """Return how the logarithm of the speed falls with the load on the other CPUs, and its error; 0 if not significant.

    Each result around its own mean: that the machine was slower another day has nothing to do with the load.
    """
    centered = []
    for rounds in sittings:
        loads = np.array([one.load_beside for one in rounds])
        speeds = np.log([one.speed for one in rounds if one.speed])
        if len(loads) >= 4 and np.ptp(loads) >= 0.1:
            centered.append((loads - loads.mean(), speeds - speeds.mean()))
    if not centered:
        return 0.0, 0.0
    x, y = (np.concatenate(column) for column in zip(*centered, strict=True))
    slope = float(x @ y / (x @ x))
    error = (float(((y - slope * x) ** 2).sum()) / (len(x) - 1 - len(centered)) / float(x @ x)) ** 0.5
    return (slope, error) if slope < -SURE_ERRORS * error else (0.0, 0.0)
