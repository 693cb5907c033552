"""The project's servers are honest, and as fast as the same strategies written from the documentation of frameworks."""

from pathlib import Path

from bench_runs import run_once
from command import invoke
from conftest import SERVERS, TESTS

from under_siege.host.programs import unmet
from under_siege.judge.ranking import summarize
from under_siege.record.result import load
from under_siege.suite.server_files import read_strategy

SUITE = "tests/suites/stock"
ACCUSATIONS = {"above_ceiling", "too_fast", "too_cheap", "timer", "availability", "pings"}
PAIRS = ("2_async", "3_async_threadexecutor", "4_async_processexecutor", "8_prefork", "11_fastapi")


def test_every_strategy_is_not_significantly_different_from_its_framework_as_documented(tmp_path: Path) -> None:
    """Measure each server beside its stock variant, and compare throughput, response times and pings."""
    out = tmp_path / "r.json"
    servers = [f"{SUITE}:{name}" for pair in PAIRS for name in (pair, f"{pair.split('_')[0]}_stock")]
    ran = invoke("run", *servers, "--rounds", "3", "--out", str(out), folder=TESTS.parent)
    assert ran.returncode in (0, 3), ran.stderr
    cases = {case.server: case for case in summarize(load(out)).cases}
    for pair in PAIRS:
        ours, stock = cases[pair], cases[f"{pair.split('_')[0]}_stock"]
        assert ours.availability_pct == stock.availability_pct == 100, pair
        rate, beside = ours.rate_per_s, stock.rate_per_s
        assert rate.low <= beside.high and beside.low <= rate.high, f"{pair}: {rate} and {beside} requests per second"  # noqa: PT018
        for what, (one, other) in {
            "response": (ours.response_s, stock.response_s),
            "ping": (ours.ping_s, stock.ping_s),
        }.items():
            shorter_s, longer_s = sorted((one.p50, other.p50))
            assert longer_s <= 1.5 * shorter_s + 0.02, f"{pair}: {what} p50 of {one.p50} s and {other.p50} s"


def test_no_built_in_strategy_is_accused(tmp_path: Path) -> None:
    result, _ = run_once(tmp_path, "--time", "4s", "--users", "6")
    cases = {case.server: case for case in summarize(result).cases}
    assert set(cases) == {path.stem for path in SERVERS if not unmet(read_strategy(path).requires)}
    for name, case in cases.items():
        assert case.verdict != "failed", name
        assert not {reason.code for reason in case.reasons} & ACCUSATIONS, name
