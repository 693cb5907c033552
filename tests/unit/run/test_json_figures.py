"""The figures of `report --format json`, compared with the raw values of a recorded result."""

import json

import pytest
from conftest import ROOT

from under_siege.record.result import load
from under_siege.report import formatted

FILE = ROOT / "results" / "sample.json.gz"
INTERVALS = ("p50_low", "p50", "p50_high"), ("p99_low", "p99", "p99_high")


def test_json_figures_match_the_raw_values() -> None:
    result = load(FILE)
    cases = json.loads(formatted(result, "json"))["cases"]
    compared = []
    for case in cases:
        records = [record for record in result.records if record.server == case["server"]]
        statuses = [status for record in records for status in record.transactions.status]
        assert (case["rounds"], case["transactions"]) == (len(records), statuses.count(200))
        waited = sorted(wait for record in records for wait in record.pings.waited_s)
        assert case["ping_s"]["max"] == waited[-1]
        assert waited[len(waited) // 2 - 1] <= case["ping_s"]["p50"] <= waited[len(waited) // 2]
        length_s = sum(record.load_s for record in records)
        checks = sum(at < record.load_s for record in records for at in record.checks.answered_s)
        if case["response_s"]["p99"] < length_s / 4:  # few responses come before the rate is steady
            assert case["rate_per_s"]["mean"] == pytest.approx((len(statuses) + checks) / length_s, rel=0.1)
            compared.append(case["server"])
    assert len(compared) > 3


def test_json_intervals_contain_their_figure() -> None:
    for case in json.loads(formatted(load(FILE), "json"))["cases"]:
        rate, share = case["rate_per_s"], case["of_ceiling"]
        assert 0 < share["low"] < share["mean"] < share["high"]
        assert 0 < rate["low"] < (case["rate_at_usual_speed_per_s"] or rate["mean"]) < rate["high"]
        for latency in (case["response_s"], case["ping_s"]):
            for names in INTERVALS:
                low, middle, high = (latency[name] for name in names)
                if None not in (low, middle, high):  # unknown if the longest request outlasts the load
                    assert low <= middle <= high
        assert 0 < case["speed"]["lowest"] <= case["speed"]["mean"] <= case["speed"]["highest"]
