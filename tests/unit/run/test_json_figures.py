"""The figures of `report --format json`, compared with the raw values of a recorded result."""

import json
import statistics

import pytest
from conftest import ROOT
from formatted import formatted
from rows import waits_of

from under_siege.record.requests import CHECK, CORRECT, LOAD
from under_siege.record.result import load

FILE = ROOT / "results" / "lesson" / "strategies.json.gz"
INTERVALS = ("p50_low", "p50", "p50_high"), ("p99_low", "p99", "p99_high")


def test_json_figures_match_the_raw_values() -> None:
    result = load(FILE)
    cases = json.loads(formatted(result, "json"))["cases"]
    compared = []
    for case in cases:
        records = [record for record in result.records if record.server == case["server"]]
        correct = sum(record.requests.only(LOAD).outcome.count(CORRECT) for record in records)
        assert (case["rounds"], case["transactions"]) == (len(records), correct)
        waited = sorted(wait_s for record in records for wait_s in waits_of(record.requests))
        assert case["ping_s"]["max"] == waited[-1]
        assert case["ping_s"]["p50"] == pytest.approx(statistics.median(waited))
        length_s = sum(record.load_s for record in records)
        checks = sum(at < record.load_s for record in records for at in record.requests.only(CHECK).ended_s)
        if case["response_s"]["p99"] < length_s / len(records) / 3:  # few responses come before the rate is steady
            assert case["measured_per_s"] == pytest.approx((correct + checks) / length_s, rel=0.1)
            compared.append(case["server"])
    assert len(compared) > 3


def test_json_intervals_contain_their_figure() -> None:
    for case in json.loads(formatted(load(FILE), "json"))["cases"]:
        rate, share = case["rate_per_s"], case["of_ceiling"]
        assert 0 < share["low"] < share["mean"] < share["high"]
        assert 0 < rate["low"] < rate["mean"] < rate["high"]
        for latency in (case["response_s"], case["ping_s"]):
            for names in INTERVALS:
                low, middle, high = (latency[name] for name in names)
                if None not in (low, middle, high):  # unknown if the longest request outlasts the load
                    assert low <= middle <= high
        assert 0 < case["speed"]["lowest"] <= case["speed"]["mean"] <= case["speed"]["highest"]
