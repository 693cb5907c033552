"""The table of metrics agrees with the documentation, and everything that shows metrics refers to it."""

import csv
import io
import json
import re

import pytest
from command import invoke
from conftest import ROOT

from under_siege.judge.goal import NAMES, goal
from under_siege.judge.metric import Metric
from under_siege.judge.metrics import METRICS, OF_STREAMS

PAGE = ROOT / "docs" / "reading.md"
SAVED = str(ROOT / "results" / "sample.json.gz")
TABLES = re.compile(r"(?<=\| column \| meaning \|\n\| --- \| --- \|\n)(?P<rank>\| rank \|.*\n)?(?:\|.*\n)+")


def rows(*, wide: bool) -> str:
    shown = [metric for metric in METRICS.values() if metric.column and metric.is_wide == wide]
    return "".join(f"| {metric.column} | {metric.meaning} |\n" for metric in shown)


def test_the_documentation_lists_every_column(renew: bool) -> None:
    """With --renew, generate the tables."""
    text = PAGE.read_text()
    generated = TABLES.sub(lambda table: (table["rank"] or "") + rows(wide=not table["rank"]), text)
    if renew:
        PAGE.write_text(generated)
    assert (generated if renew else text) == generated
    assert len(TABLES.findall(text)) == 2


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_metric_has_a_column_or_a_name_and_each_column_has_a_meaning(metric: Metric) -> None:
    assert metric.key == metric.key.lower().replace(" ", "_")
    assert bool(metric.meaning) == bool(metric.column)
    assert bool(metric.chart_name) == bool(metric.chart_title)
    assert not metric.is_compared or (metric.of_round and metric.column)


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_can_be_required_by_its_name_with_each_of_its_units(name: str) -> None:
    for unit, factor in NAMES[name].unit.factors.items():
        parsed = goal(f"{name} < 3{unit}")
        assert (parsed.figure, parsed.limit) == (NAMES[name].key, pytest.approx(3 * factor))


def test_csv_and_json_have_every_metric() -> None:
    headings = next(csv.reader(io.StringIO(invoke("report", SAVED, "--format", "csv").stdout)))
    cases = json.loads(invoke("report", SAVED, "--format", "json").stdout)["cases"]
    known = {key for case in cases for key in case["metrics"]}
    absent = {"backlog", "throttled_pct", "of_quota", "of_memory_limit"}  # this result has neither jobs nor limits
    assert known == METRICS.keys() - absent - set(OF_STREAMS)
    assert METRICS.keys() - {"rate_as_measured_per_s"} <= set(headings)  # `rate_per_s` is as measured in a CSV file
    assert {"value", "low", "high"} == cases[0]["metrics"]["rate_per_s"].keys()
