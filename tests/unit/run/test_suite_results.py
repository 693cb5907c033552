"""The result of a suite: its title, its requests, and what was not measured or compared."""

import json

import msgspec
import pytest
from formatted import formatted
from simulated_bursts import burst_record_of
from simulated_record import bare_record, record_of, result_of

from under_siege.judge.ranking import summarize
from under_siege.load.body_rule import ANY, BodyRule
from under_siege.record.record import Record
from under_siege.record.result import MeasuredSuite, Result
from under_siege.show.notes import notes


def measured(*records: Record, **suite: str) -> Result:
    result = result_of(list(records))
    result.suite = MeasuredSuite(title="Which <b>shop</b> is quick?", **suite)
    return result


@pytest.mark.usefixtures("undrawn")
def test_every_output_format_shows_the_result_of_a_suite() -> None:
    values = {"path": "/report?customer=acme", "customer": "acme"}
    record = msgspec.structs.replace(record_of("plain"), values={**values, "users": 5, "python": "3.11.7"})
    result = measured(record, ping="/health")
    page = formatted(result, "html")
    assert "Which &lt;b&gt;shop&lt;/b&gt; is quick?" in page
    assert "<b>shop</b>" not in page
    assert "/report?customer=acme" in formatted(result, "markdown")
    assert json.loads(formatted(result, "json"))["cases"][0]["parameters"] == values
    assert "plain" in formatted(result, "csv")


def test_notes_name_comparisons_and_measurements_that_were_omitted() -> None:
    checked = BodyRule(ANY).checked()
    omitted = dict(notes(summarize(measured(record_of("plain", has_ceiling=False), checked=checked))))
    assert {"answers", "ceiling", "pings"} <= omitted.keys()
    assert omitted["answers"] == checked
    complete = dict(notes(summarize(measured(bare_record(), record_of("plain"), ping="/health"))))
    assert not {"answers", "ceiling", "pings"} & complete.keys()


def warm_up_notes(answers: int, cpu_s: float | None) -> list[str]:
    """Return the warm-up notes on a server whose first `answers` responses used `cpu_s`, and each later one 0.1 s."""
    record = burst_record_of("1_x")
    record.warm_up_answers, record.warm_up_cpu_s = answers, cpu_s
    result = result_of([bare_record(), record])
    one = summarize(result).cases[0].cpu_s_per_transaction
    assert one == pytest.approx(0.1)
    return [message for _, message in notes(summarize(result)) if "the warm-up is not part" in message]


def test_a_note_reports_that_the_first_responses_used_more_cpu_time_than_later_ones() -> None:
    (note,) = warm_up_notes(6000, 6000 * 0.25)
    assert note.startswith("its first 6,000 responses used 250 ms of CPU each, later ones 100 ms; ")
    assert warm_up_notes(6000, 6000 * 0.13) == warm_up_notes(0, 0.0) == warm_up_notes(6000, None) == []
