"""Judge a single simulated case."""

from simulated_record import bare_record, result_of

from under_siege.judge.ranking import summarize
from under_siege.judge.summary import Summary
from under_siege.record.record import Record


def judged(record: Record, *bare: Record) -> Summary:
    """Return the summary of one case that was measured in one round."""
    (case,) = summarize(result_of([*(bare or [bare_record()]), record])).cases
    return case


def codes(case: Summary) -> list[str]:
    """Return the codes of the reasons for the case's verdict."""
    return [reason.code for reason in case.reasons]
