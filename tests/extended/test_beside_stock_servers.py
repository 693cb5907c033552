"""The project's servers are as fast as the same strategies written from the documentation of their frameworks."""

from pathlib import Path

from command import invoke
from conftest import TESTS

from under_siege.judge.ranking import summarize
from under_siege.record.result import load

SUITE = "tests/suites/stock"
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
