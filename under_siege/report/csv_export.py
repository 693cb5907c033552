"""The records as CSV: one row for each case in each round, units in the heads, for a spreadsheet."""

import csv
import io

from under_siege.analysis.report_data import Comparison, summarize
from under_siege.analysis.summary import Summary
from under_siege.model.record import Result
from under_siege.stats.rounds_data import Round

Value = str | float | None


def as_csv(result: Result, *, corrected: bool = True) -> str:
    """A line of heads, then a line for each record; what isn't known is left empty."""
    page = io.StringIO()
    comparison = summarize(result, corrected=corrected)
    rows = [_row(one, comparison) for one in comparison.every_round()]
    heads = dict.fromkeys(head for row in rows for head in row) or ["server"]
    writer = csv.DictWriter(page, list(heads), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: as_cell(value) for name, value in row.items()} for row in rows)
    return page.getvalue().rstrip("\n")


def _row(one: Round, comparison: Comparison) -> dict[str, Value]:
    summary, record = comparison.summary_of_one(one), one.record
    return {
        "server": record.server,
        "task": summary.task,
        "users": summary.users,
        "python": summary.python,
        **{name: value for name, value in summary.parameters.items() if name != "workers"},
        "round": record.round,
        "began_at": record.began_at,
        "verdict": summary.verdict,
        "reasons": "; ".join(reason.code for reason in summary.reasons),
        "workers": record.workers,
        **_figures(summary),
        "ready_s": record.ready_s,
        "load_s": record.load_s,
    }


def _figures(summary: Summary) -> dict[str, Value]:
    """Named as in `report --format json`."""
    response, ping = summary.response_s, summary.ping_s
    return {
        "rate_per_s": summary.rate_per_s.mean if summary.rate_per_s else None,
        "rate_at_usual_speed_per_s": summary.rate_at_usual_speed_per_s,
        "ceiling_per_s": summary.ceiling_per_s,
        "of_ceiling": summary.of_ceiling.mean if summary.of_ceiling else None,
        "availability_pct": summary.availability_pct,
        "transactions": summary.transactions,
        "response_p50_s": response.p50 if response else None,
        "response_p95_s": response.p95 if response else None,
        "response_p99_s": response.p99 if response else None,
        "response_max_s": response.max if response else None,
        "ping_p50_s": ping.p50 if ping else None,
        "ping_p99_s": ping.p99 if ping else None,
        "ping_max_s": ping.max if ping else None,
        "cpu_s_per_transaction": summary.cpu_s_per_transaction,
        "memory_bytes": summary.memory_bytes,
        "memory_kind": summary.memory_kind,
        "speed": summary.speed.mean if summary.speed else None,
    }


def as_cell(value: Value) -> Value:
    """Six significant digits are more than is known; and no text may pass for a formula."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value
