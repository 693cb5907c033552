"""The bytes that wrk received are compared with the sizes of the requested files."""

from dataclasses import replace

import pytest
from load_specs import load_spec
from simulated_bursts import burst_record_of
from simulated_record import bare_record, result_of

from under_siege.judge.ranking import summarize
from under_siege.load.tool import ToolOutput
from under_siege.load.wrk import Wrk

LINE = (
    '{{"requests": 100, "duration_us": 1000000, "connect": {errors}, "read": 0, "write": 0, "status": 0, "p50_us": 1, '
    '"p95_us": 1, "p99_us": 1, "max_us": 1, "asked_bytes": 500000, "body_bytes": {got}, "wrong_bodies": 0}}'
)


@pytest.mark.parametrize(
    ("got", "errors", "odd"), [(500_000, 0, 0), (441_000, 0, 0), (439_000, 0, 1000), (0, 0, 440_000), (0, 1, None)]
)
def test_wrk_totals_tolerate_missing_bytes_of_responses_in_flight(got: int, errors: int, odd: int | None) -> None:
    order = load_spec(10, 1.0, "http://here/", threads=2, paths=(("/a", 5000), ("/b", 1)))
    totals = Wrk().totals(ToolOutput(0, LINE.format(got=got, errors=errors)), order)
    assert (totals.body_bytes, totals.odd_bytes) == (got, odd)
    get = {"request.lua": 'wrk.method, wrk.body = "GET", nil\n'}
    assert Wrk().files(order) == {"paths.txt": "5000 /a\n1 /b\n", "expected.lua": "return nil\n", **get}
    assert Wrk().files(replace(order, paths=(), expected=b'"\n')) == {"expected.lua": 'return "\\034\\010"\n', **get}


def test_responses_whose_lengths_differ_from_those_of_the_files_fail_the_case() -> None:
    def verdict(odd: int | None) -> str:
        record = burst_record_of("1_x", odd_bytes=odd, body_bytes=None)
        record.answer_bytes = -1
        return summarize(result_of([bare_record(), record])).cases[0].verdict

    assert (verdict(12_345), verdict(0), verdict(None)) == ("failed", "ok", "ok")
