"""Define the metrics in one table: what each is called, how it is computed, and how it is shown.

Columns, CSV and JSON keys, requirements, capacity goals, sweep charts, claims of the lesson and comparisons refer to
this table. The tables in docs/reading.md are generated from it.
"""

import math
from collections.abc import Callable
from typing import Any

from under_siege import formatting
from under_siege.judge.estimators import Waits
from under_siege.judge.measured_case import MeasuredCase
from under_siege.judge.metric import Metric
from under_siege.judge.round_statistics import Round
from under_siege.judge.speed_correction import CorrectedRound
from under_siege.judge.stream_statistics import StreamStatistics
from under_siege.judge.units import COUNT, PERCENT, RATE, SHARE, SIZE, TIME

PING_TOLERANCE_S = 0.020
_EVENT_TOLERANCE_S = 0.010  # users don't notice smaller differences between streams


def _response_metric(percent: int, meaning: str, **shown: Any) -> Metric:
    def of_round(corrected: CorrectedRound, run: Round) -> list[float | None]:
        seconds = run.response_s(percent)
        return [seconds and seconds * corrected.times]

    def at_least(run: Round) -> float | None:
        if run.totals:
            return run.totals.percentile(percent)
        return run.responses.at_least_s(percent)

    return Metric(
        f"response_p{percent}_s",
        TIME,
        lambda case, _: case.response_s(percent),
        meaning,
        f"p{percent}",
        percent=percent,
        of_round=of_round,
        at_least=at_least,
        **shown,
    )


def _ping_metric(percent: int, meaning: str, **shown: Any) -> Metric:
    """Return a metric with one value for each half of a siege, because there are many pings but few rounds."""
    return Metric(
        f"ping_p{percent}_s",
        TIME,
        lambda case, _: case.pings.percentile(percent),
        meaning,
        f"ping p{percent}",
        percent=percent,
        of_round=lambda _, run: [half.percentile(percent) for half in run.halves_of_pings],
        at_least=lambda run: run.pings.at_least_s(percent),
        tolerance=PING_TOLERANCE_S,
        usual_deviation=0.25,  # of the logarithm of 20 ms and the latency, in recorded runs
        **shown,
    )


def _longest_metric(
    key: str, name: str, longest_s: Callable[[MeasuredCase], float | None], meaning: str = "", **shown: Any
) -> Metric:
    """Return a metric whose interval has no upper end, because later requests may take longer."""
    return Metric(
        key,
        TIME,
        lambda case, _: longest_s(case),
        meaning,
        name,
        percent=100,
        interval=lambda _, value, __: (value, math.inf),
        **shown,
    )


def _events_metric(
    kind: str,
    percent: int,
    meaning: str,
    samples_of: Callable[[StreamStatistics], Waits],
    **shown: Any,
) -> Metric:
    """Return a percentile of the first events of streams, or of the gaps between their events."""

    def at_least(run: Round) -> float | None:
        if run.streams is None:
            return None
        return samples_of(run.streams).at_least_s(percent)

    def of_round(_: CorrectedRound, run: Round) -> list[float | None]:
        return [samples_of(run.streams).percentile(percent) if run.streams else None]

    return Metric(
        f"{kind}_p{percent}_s",
        TIME,
        lambda case, _: case.of_streams(samples_of).percentile(percent),
        meaning,
        f"{kind.replace('_', ' ')} p{percent}",
        percent=percent,
        of_round=of_round,
        at_least=at_least,
        tolerance=_EVENT_TOLERANCE_S,
        **shown,
    )


def _first_events(streams: StreamStatistics) -> Waits:
    return streams.first_events


def _gaps(streams: StreamStatistics) -> Waits:
    return streams.gaps


_LOWER_BOUND = (
    'A text such as "> 4.00 s" is only a lower bound, because too few requests were answered before the siege ended.'
)
_PINGS = "Pings are trivial requests, sent to the same server 20 times a second under load."

_ROWS = (
    Metric(
        "rate_per_s",
        RATE,
        MeasuredCase.usual_rate,
        "Transactions per second (siege's transaction rate): correct responses per second ± half the width of the "
        "95 % confidence interval. If the CPU speed changed, this is the rate at the mean speed of this run, also "
        "corrected for CPU time lost to noisy neighbours and other programs. For streams, the column shows events/s: "
        "the events of all streams per second.",
        "rate",
        "trans/s",
        title="transactions per second",
        of_streams="events/s",
        has_margin=True,
        more_is_better=True,
        of_round=lambda corrected, _: [corrected.rate],
        interval=MeasuredCase.around_estimate,
        disturbance=lambda corrected: corrected.rate_variance,
        single_round=lambda corrected: corrected.single_round_variance,
        is_compared=True,
        chart_name="rate",
        chart_title="responses per second, speed-adjusted",
        is_on_page=True,
    ),
    Metric(
        "of_ceiling",
        SHARE,
        lambda _, estimate: estimate.mean if estimate else None,
        "Transactions per second as a share of the ceiling, the rate that the same load reaches without a server.",
        "of ceiling",
        "of ceiling",
        "of\nceiling",
        more_is_better=True,
    ),
    Metric(
        "availability_pct",
        PERCENT,
        lambda case, _: case.availability_pct,
        "The share of all requests that got a correct response.",
        "availability",
        "availability",
        "avail-\nability",
        more_is_better=True,
        interval=lambda case, *_: case.availability_interval(),
    ),
    _response_metric(
        50,
        f"Half of all requests for the task took no longer than this. {_LOWER_BOUND}",
        column="response p50",
        in_terminal="response\np50",
    ),
    _response_metric(95, ""),
    _response_metric(
        99,
        f"99 of 100 requests for the task took no longer than this. {_LOWER_BOUND}",
        column="response p99",
        in_terminal="\np99",
        chart_name="p99",
        chart_title="response, 99th percentile",
        is_logarithmic=True,
        is_on_page=True,
    ),
    _longest_metric("response_max_s", "max", MeasuredCase.longest_response_s),
    _events_metric(
        "first_event",
        50,
        "Half of all streams sent their first event within this time after the request, which includes the connection. "
        "Language-model services call it the time to first token (TTFT). In their formats, only events with text "
        "count, and the column is called `first text`.",
        _first_events,
        column="first event p50",
        in_terminal="first\nevent p50",
    ),
    _events_metric(
        "first_event",
        99,
        "99 of 100 streams sent their first event within this time.",
        _first_events,
        column="first event p99",
        in_terminal="\np99",
        is_compared=True,
        chart_name="first-event",
        chart_title="first event, 99th percentile",
        is_logarithmic=True,
        is_on_page=True,
    ),
    _longest_metric("first_event_max_s", "first event max", lambda case: case.of_streams(_first_events).longest_s()),
    _events_metric(
        "gap",
        50,
        "Half of all events came no later than this after the previous event of the same stream. "
        "Language-model services call it the inter-token latency (ITL).",
        _gaps,
        column="gap p50",
        in_terminal="gap\np50",
    ),
    _events_metric(
        "gap",
        99,
        "99 of 100 events came no later than this after the previous event of the same stream. If it is much longer "
        "than the median, users see the stream stutter.",
        _gaps,
        column="gap p99",
        in_terminal="\np99",
        is_compared=True,
        chart_name="gap",
        chart_title="gap between events, 99th percentile",
        is_logarithmic=True,
        is_on_page=True,
    ),
    _longest_metric(
        "gap_max_s",
        "gap max",
        lambda case: case.of_streams(_gaps).longest_s(),
        "The longest gap.",
        column="gap max",
        in_terminal="\nmax",
        is_wide=True,
    ),
    Metric(
        "streams_at_once",
        COUNT,
        lambda case, _: case.mean(lambda run: run.streams.at_once if run.streams else None),
        "The mean number of streams in progress, from their first event to their end. If it is much lower than the "
        "number of users, streams wait for each other.",
        "streams at once",
        "streams at once",
        "streams\nat once",
    ),
    Metric(
        "streams_per_s",
        RATE,
        lambda case, _: case.mean(lambda run: run.streams.per_s if run.streams else None),
        "Complete streams per second.",
        "streams",
        "streams/s",
        is_wide=True,
        more_is_better=True,
    ),
    _ping_metric(
        50,
        f"Half of all pings took no longer than this. {_PINGS}",
        column="ping p50",
        in_terminal="ping\np50",
        is_wide=True,
    ),
    _ping_metric(95, ""),
    _ping_metric(
        99,
        f"99 of 100 pings took no longer than this. {_PINGS}",
        column="ping p99",
        in_terminal="ping\np99",
        is_compared=True,
        chart_name="ping",
        chart_title="ping, 99th percentile",
        is_logarithmic=True,
        is_on_page=True,
    ),
    _longest_metric("ping_max_s", "ping max", lambda case: case.pings.longest_s()),
    Metric(
        "memory_bytes",
        SIZE,
        lambda case, _: case.memory_bytes(),
        "Peak memory of the server and all its processes. PSS (proportional set size) counts shared pages only once.",
        "memory",
        "memory",
        of_round=lambda _, run: [run.memory_bytes()],
        needs_process=True,
        is_compared=True,
        chart_name="memory",
        chart_title="memory, megabytes",
    ),
    Metric(
        "throttled_pct",
        PERCENT._replace(text=lambda value: formatting.share(value / 100)),
        lambda case, _: case.throttled_pct(),
        "With `--cpus` or in a container: the share of the quota's periods (100 ms each) in which the server used up "
        "its CPU quota and had to wait for the next period.",
        "throttled",
        "throttled",
        is_wide=True,
        interval=lambda case, *_: case.throttled_interval(),
        chart_name="throttled",
        chart_title="periods with throttling, percent",
    ),
    Metric(
        "of_quota",
        SHARE,
        lambda case, _: case.mean(lambda run: used / run.quota if run.quota and (used := run.cpus_used()) else None),
        "CPU time of the server as a share of its quota.",
        column="of quota",
        is_wide=True,
    ),
    Metric(
        "of_memory_limit",
        SHARE,
        lambda case, _: case.mean(Round.of_memory_limit),
        "Peak memory as a share of the memory limit. It includes the page cache, which the kernel frees if necessary.",
        "memory used",
        "of memory limit",
        in_terminal="of\nlimit",
        is_wide=True,
        of_round=lambda _, run: [run.of_memory_limit()],
    ),
    Metric(
        "workers",
        COUNT,
        lambda case, _: case.workers(),
        "How many tasks can be in progress at the same time, for example one in each thread or process. They can't "
        "always compute at the same moment: threads of one Python process take turns.",
        column="workers",
        is_wide=True,
    ),
    Metric(
        "cpu_s_per_transaction",
        TIME,
        lambda case, _: case.mean(Round.cpu_s_per_transaction),
        "CPU time of the server and all its processes for each correct response, as measured. On faster CPUs it is "
        "lower.",
        "cpu",
        "CPU per trans",
        "CPU per\ntrans",
        title="CPU per transaction",
        of_streams="CPU per event",
        is_wide=True,
        of_round=lambda corrected, _: [corrected.cpu_s],
        disturbance=lambda corrected: corrected.cpu_variance,
        needs_process=True,
        is_compared=True,
        chart_name="cpu",
        chart_title="CPU per response, milliseconds",
    ),
    Metric(
        "rate_as_measured_per_s",
        RATE,
        lambda case, _: case.mean(lambda run: run.rate.per_s),
        "Transactions per second without any adjustment for the speed of the CPUs.",
        column="as measured",
        in_terminal="as\nmeasured",
        is_wide=True,
        more_is_better=True,
    ),
    Metric(
        "speed",
        SHARE,
        lambda case, _: case.mean(lambda run: case.correction.rounds[run].speed),
        "CPU speed while this case was measured, compared with its mean over this run.",
        column="speed",
        is_wide=True,
    ),
    Metric(
        "ready_s",
        TIME,
        lambda case, _: case.median(lambda run: run.record.ready_s),
        "Time from the start of the server to its first correct response to a ping.",
        column="ready",
        in_terminal="ready\nafter",
        is_wide=True,
    ),
    Metric(
        "backlog",
        COUNT,
        lambda case, _: case.median(lambda run: run.record.drain.backlog if run.record.drain else None),
    ),
    Metric(
        "drain_s",
        TIME,
        lambda case, _: case.median(lambda run: run.record.drain.lasted_s if run.record.drain else None),
    ),
)
METRICS = {metric.key: metric for metric in _ROWS}  # in the order of the columns
OF_STREAMS = tuple(key for key in METRICS if key.startswith(("first_event_", "gap_", "streams_")))
ESTIMATED = tuple(metric for metric in _ROWS if metric.of_round)
SPEED_CORRECTED = tuple(metric.key for metric in _ROWS if metric.disturbance)
