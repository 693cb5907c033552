"""The verdict on a single case."""

from simulated_record import bare_record, result_of

from common.model.record import Record
from common.report.judging.comparison import summarize
from common.report.judging.summary import Summary


def judged(record: Record, *bare: Record) -> Summary:
    """Return the summary of one case that was measured in one round."""
    (case,) = summarize(result_of([*(bare or [bare_record()]), record])).cases
    return case


def codes(case: Summary) -> list[str]:
    """Return why its verdict is not `ok`."""
    return [reason.code for reason in case.reasons]
