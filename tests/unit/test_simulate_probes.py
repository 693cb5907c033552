"""scripts/simulate_probes.py simulates as many restarts as theory predicts, and keeps consecutive pings together."""

import itertools
import math
import random
from types import ModuleType, SimpleNamespace

import pytest
import source_code
import yaml
from conftest import ROOT, thorough
from rows import set_waits
from simulated_record import record_of, result_of

QUICK_S, SLOW_S, INTERVAL_S, READY_S = 0.01, 60.0, 0.05, 1.0
LONG_S = 1_500_000.0


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return source_code.script("simulate_probes")


def restarts_per_probe(script: ModuleType, rounds: list, stretch_s: float, threshold: int) -> float:
    """Return the number of restarts per probe, for a container that restarts and becomes ready without delay."""
    chance = random.Random(1)
    pings, probe = script.PingClock(rounds, INTERVAL_S, stretch_s, chance), script.Probe(10, 1, threshold)
    outcome = script.simulate(pings, probe, 0.0, chance, LONG_S, first_delay_s=0.0)
    return outcome.restarts * probe.period_s / LONG_S


@pytest.mark.parametrize(
    ("late", "threshold"), thorough([(0.2, 1), (0.2, 3), (0.5, 3), (0.9, 3), (0.5, 6)], quick=[(0.5, 3)])
)
def test_independent_timeouts_cause_the_restart_rate_that_theory_predicts(
    script: ModuleType, late: float, threshold: int
) -> None:
    """The mean number of trials until k successes in a row is (1 - p^k) / ((1 - p) p^k): Feller, vol. 1, XIII.7."""
    pings = [SLOW_S] * round(1000 * late) + [QUICK_S] * round(1000 * (1 - late))
    trials = (1 - late**threshold) / ((1 - late) * late**threshold)
    # Probes are 10 s apart and a block of consecutive pings lasts 0.1 s on average, so all probes are independent.
    assert restarts_per_probe(script, [pings], 0.1, threshold) == pytest.approx(1 / trials, rel=0.08)


def test_consecutive_slow_pings_cause_more_restarts_than_scattered_ones(script: ModuleType) -> None:
    slow_minutes = ([SLOW_S] * 1200 + [QUICK_S] * 4800) * 20  # one slow minute in five
    together = restarts_per_probe(script, [slow_minutes], 600.0, 3)
    apart = restarts_per_probe(script, [slow_minutes], 0.1, 3)
    assert together == pytest.approx(0.2 / 3, rel=0.15)  # two restarts in the six probes of each slow minute
    assert together > 5 * apart


def test_the_delay_between_restarts_grows(script: ModuleType) -> None:
    """Expect restarts 0, 10, 20, 40, 80, 160 and then always 300 s after a kill; three probes cause the next kill."""
    chance = random.Random(1)
    pings = script.PingClock([[math.inf]], INTERVAL_S, 2.0, chance)
    outcome = script.simulate(pings, script.DEFAULT, READY_S, chance, 3600.0)
    assert outcome.restarts == pytest.approx(16, abs=1)
    assert outcome.down_s == pytest.approx(3600 - outcome.restarts * 25, abs=160)


def test_quick_pings_cause_no_restarts(script: ModuleType) -> None:
    chance = random.Random(1)
    pings = script.PingClock([[QUICK_S]], INTERVAL_S, 2.0, chance)
    assert script.simulate(pings, script.DEFAULT, READY_S, chance) == (0, 0.0)


@pytest.mark.parametrize(("ready_s", "restarts"), [(5.0, 1), (60.0, 16)])
def test_a_container_that_starts_too_slowly_is_restarted_repeatedly(
    script: ModuleType, ready_s: float, restarts: int
) -> None:
    """Make only the first three pings slow; later probes fail only while the container starts."""
    chance, latencies_s = random.Random(1), itertools.chain([SLOW_S] * 3, itertools.repeat(QUICK_S))
    pings = SimpleNamespace(latency_s=lambda _: next(latencies_s))
    found = script.simulate(pings, script.DEFAULT, ready_s, chance).restarts
    assert found == pytest.approx(restarts, abs=restarts // 10)


def test_each_cpu_limit_of_a_server_has_its_own_row(script: ModuleType) -> None:
    records = [record_of("pool", parameters={"cpus": cpus}) for cpus in ("0.5", "1")]
    for record in records:
        set_waits(record.requests, QUICK_S)
    options = SimpleNamespace(hours=1, stretch=2.0, seed=1)
    table = script.table_of(result_of(records), [script.DEFAULT], options, "")
    assert [*table.rows] == ["pool (0.5 CPUs)", "pool (1 CPU)"]


def test_the_recommended_liveness_probe_has_the_settings_10_5_3(script: ModuleType) -> None:
    probes = yaml.safe_load((ROOT / "suites/questions/11-health-check-timeouts/probes.yaml").read_text())
    live = probes["livenessProbe"]
    assert (live["periodSeconds"], live["timeoutSeconds"], live["failureThreshold"]) == script.probe_of("10/5/3")
