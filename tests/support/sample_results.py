"""Measured and simulated results for tests of pages and charts."""

from __future__ import annotations

import functools
import itertools

from conftest import ROOT
from simulated_record import bare_record, record_of, result_of
from simulated_trace import trace_of

from under_siege.record.record import Failure
from under_siege.record.result import Required, Result, load

HOSTILE = "9_<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def several() -> Result:
    """Return a result of several tasks, user counts and Pythons, with failed cases and cases above the ceiling."""
    records = []
    settings = [*itertools.product((5, 10, 25), ("3.11.7",)), (25, "3.14.0t")]
    for task, (users, python), round_ in itertools.product(("primes", "digest"), settings, (1, 2)):
        setting = {"task": task, "users": users, "python": python}
        records += [
            bare_record(round_, **setting),
            record_of("1_sync", round_, **setting),
            record_of("4_async_processexecutor", round_, workers=2, **setting),
            record_of("7_lies", round_, workers=40, speed=3, **setting),
            record_of("8_dies", round_, failure=Failure("died", "it died"), **setting),
        ]
    result = result_of(records)
    result.traces += [trace_of(["1/MainThread"]), trace_of(["1/MainThread", "2/MainThread"])]
    result.requirements += [Required("rate >= 10/s"), Required("availability >= 99.9%"), Required("memory < 60MB")]
    return result


def hostile() -> Result:
    records = [bare_record(1, task=HOSTILE), record_of(HOSTILE, 1, task=HOSTILE, python=HOSTILE)]
    records.append(record_of(HOSTILE + "2", 1, task=HOSTILE, failure=Failure("died", HOSTILE)))
    result = result_of(
        records, cpu_model=HOSTILE, system=HOSTILE, packages_of={HOSTILE: {HOSTILE: HOSTILE}}, commit=HOSTILE
    )
    result.command = ["bench.py", HOSTILE]
    result.requirements.append(Required("rate >= 10/s"))
    trace = trace_of([HOSTILE, HOSTILE + "2"])
    trace.server = trace.title = trace.values["task"] = HOSTILE
    result.traces.append(trace)
    return result


RESULTS = {
    "sample": lambda: load(ROOT / "results" / "sample.json.gz"),
    "published": lambda: load(ROOT / "results" / "published.json.gz"),
    "several": several,
    "hostile": hostile,
    "empty": lambda: result_of([]),
    "failed": lambda: result_of([record_of("1_sync", 1, failure=Failure("died", "it died"))]),
}


@functools.cache
def result(name: str) -> Result:
    return RESULTS[name]()
