"""Each request of a mix: its share, availability and response times, and the longer request that it waits for."""

import pytest
from rows import places, set_status, without
from simulated_bursts import COUNT, burst_record_of
from simulated_record import TIME_S, bare_record, record_of, result_of

from under_siege.judge.estimators import waits
from under_siege.judge.ranking import summarize
from under_siege.judge.request_summary import waiting
from under_siege.judge.requirement_check import judged
from under_siege.judge.round_statistics import Round
from under_siege.judge.summary import Summary
from under_siege.record.record import Record, RequestTotals, SentRequest
from under_siege.record.requests import CORRECT, LATE, LOAD, LOST, OPEN
from under_siege.record.result import Required

LIST, REPORT = SentRequest("GET", "/list", alone_s=0.002), SentRequest("POST", "/report", 201, alone_s=0.2)


def mixed(round_: int = 1, list_s: float = 0.15) -> Record:
    """Return a record in which three of four requests are for the list, which takes `list_s`."""
    record = record_of("1_mix", round_, workers=2, mix=[LIST, REPORT], has_task=False, other_statuses=[201])
    requests = record.requests
    for number, index in enumerate(places(requests)):
        of_report = number % 4 == 3
        requests.request[index], requests.status[index] = int(of_report), 201 if of_report else 200
        took_s = 0.25 if of_report else list_s
        requests.sent_s[index] = requests.due_s[index] = requests.ended_s[index] - took_s
    return record


def summary(*records: Record, requirements: tuple[str, ...] = ()) -> tuple[Summary, list[str]]:
    """Return the summary of the only case, and the outcome of each requirement."""
    result = result_of([*(bare_record(record.round) for record in records), *records])
    result.requirements[:] = map(Required, requirements)
    comparison = summarize(result)
    return comparison.cases[0], [one.outcome for one in judged(comparison)]


def test_each_request_has_its_share_availability_and_response_times() -> None:
    requirements = ("GET /list p50 < 200ms", "POST /report p50 < 200ms")
    case, outcomes = summary(mixed(1), mixed(2), requirements=requirements)
    listed, report = case.requests
    assert (listed.name, report.name) == ("GET /list", "POST /report")
    assert listed.share_pct == pytest.approx(75, abs=1)
    assert listed.share_pct + report.share_pct == pytest.approx(100)
    assert (listed.availability_pct, report.availability_pct) == (100, 100)
    assert (listed.response_s.p50, report.response_s.p50) == (pytest.approx(0.15), pytest.approx(0.25))
    assert (outcomes[0] != "missed", outcomes[1]) == (True, "missed")


def test_a_wrong_status_lowers_the_availability_of_its_request_only() -> None:
    record = mixed()
    set_status(record, 200, range(3, 20, 4))  # which is right for the other request
    listed, report = summary(record)[0].requests
    assert listed.availability_pct == 100 > report.availability_pct


def test_a_request_waits_for_another_if_it_takes_much_longer_than_alone() -> None:
    assert [(one.path, longer.path) for one, longer in waiting(summary(mixed())[0].requests)] == [("/list", "/report")]
    assert not list(waiting(summary(mixed(list_s=0.005))[0].requests))


def test_totals_of_each_request_are_summed_over_the_bursts() -> None:
    totals = [RequestTotals(0, 30, 3, 0.1, 0.2, 300), RequestTotals(1, 10, 0, 0.3, 0.4, 50)]
    record = burst_record_of("1_mix", tool="locust", requests=totals)
    record.mix = [LIST, REPORT]
    listed, report = summary(record)[0].requests
    assert (listed.share_pct, listed.availability_pct) == (75, 90)
    assert (listed.response_s.p50, report.response_s.p99) == pytest.approx((0.1, 0.4))
    assert (listed.mean_bytes, report.mean_bytes) == (10, 5)
    assert len(record.bursts.requests) == COUNT


def test_requests_for_one_path_are_one_row_if_the_tool_reports_only_paths() -> None:
    record = mixed()
    record.mix = [SentRequest("GET", "/list"), SentRequest("POST", "/list")]
    record.requests.request[:] = [0] * len(record.requests)
    (row,) = summary(record)[0].requests
    assert row.name == "GET/POST /list"


def of_item_and_missing(item_statuses: list[int]) -> Record:
    """Return a record in which the second of two requests is expected to get the status 404."""
    sent = [SentRequest("GET", "/item"), SentRequest("GET", "/missing", 404)]
    record = record_of("1_mix", workers=2, mix=sent, has_task=False, other_statuses=[404])
    without(record, LOAD)
    for number, status in enumerate(item_statuses):
        for request, status_of_request in ((0, status), (1, 404)):
            at_s = number * 0.04
            outcome = record.outcome_of(status_of_request, 4, request)
            record.requests.add(
                LOAD,
                user=request,
                request=request,
                sent_s=at_s,
                ended_s=at_s + 0.04,
                status=status_of_request,
                size_bytes=4,
                outcome=outcome,
            )
    return record


def test_the_right_status_of_another_request_is_wrong() -> None:
    """Answer 8.6 % of the requests for /item with 404, which is right only for /missing: 4.3 % of all."""
    case, outcomes = summary(of_item_and_missing(([200] * 32 + [404] * 3) * 2), requirements=("availability >= 98%",))
    assert case.availability_pct == pytest.approx(100 * 134 / 140)
    assert [request.availability_pct for request in case.requests] == [pytest.approx(100 * 64 / 70), 100]
    assert case.rate_per_s.mean == pytest.approx(50 * 134 / 140, rel=0.05)
    assert outcomes != ["met"]
    assert "availability" in [reason.code for reason in case.reasons]


def test_lost_and_open_requests_count_for_their_request_of_a_mix() -> None:
    """Lose a tenth of the requests for the list, and leave half of the reports without a response."""
    record = mixed()
    requests = record.requests
    listed, reports = ([index for index in places(requests) if requests.request[index] == one] for one in (0, 1))
    for index in listed[::10]:
        requests.outcome[index], requests.status[index] = LOST, 0
    for index in reports[::2]:
        requests.outcome[index], requests.status[index] = OPEN, 0
        requests.ended_s[index] = TIME_S
    of_list, of_reports = summary(record)[0].requests
    lost = len(listed[::10])
    assert of_list.availability_pct == pytest.approx(100 * (1 - lost / len(listed)))
    assert of_reports.availability_pct == 100  # no response was wrong or lost
    assert of_list.share_pct == pytest.approx(100 * len(listed) / (len(listed) + len(reports[1::2])))
    waited = Round(record)
    slow = waits(waited.rows[waited.rows.request == 1])
    assert (slow.percentile(25), slow.percentile(99)) == (pytest.approx(0.25), None)


def test_a_request_whose_responses_are_all_lost_keeps_its_row() -> None:
    record = mixed()
    for index in places(record.requests):
        if record.requests.request[index] == 1:
            record.requests.outcome[index], record.requests.status[index] = LATE, 0
    of_reports = summary(record)[0].requests[1]
    assert (of_reports.name, of_reports.availability_pct, of_reports.response_s.p99) == ("POST /report", 0, None)


def test_a_request_that_is_never_answered_keeps_its_row() -> None:
    record = mixed()
    for index in places(record.requests):
        if record.requests.request[index] == 1:
            record.requests.outcome[index], record.requests.status[index] = OPEN, 0
            record.requests.ended_s[index] = TIME_S
    case, outcomes = summary(record, requirements=("POST /report p99 < 1s", "POST /report availability >= 99%"))
    of_reports = case.requests[1]
    assert (of_reports.name, of_reports.share_pct, of_reports.availability_pct) == ("POST /report", 0, None)
    assert (of_reports.response_s.p50, of_reports.response_s.p99) == (None, None)
    assert "met" not in outcomes


def test_a_percentile_of_a_request_is_unknown_if_one_round_does_not_reach_it() -> None:
    records = [mixed(1), mixed(2)]
    requests = records[0].requests
    for index in [index for index in places(requests) if requests.request[index] == 0][::10]:
        requests.outcome[index], requests.status[index] = LOST, 0
    of_list = summary(*records)[0].requests[0].response_s
    assert (of_list.p50, of_list.p99) == (pytest.approx(0.15), None)


def test_percentiles_of_a_request_are_unknown_if_arrivals_exceed_what_the_server_can_do() -> None:
    """Let 40 requests a second arrive for 15 s at a server that answers 20: half of each kind are never answered."""
    record = record_of("1_mix", load_s=15.0, mix=[LIST, REPORT], parameters={"arrivals": "40/s"})
    without(record, LOAD)
    for number in range(600):
        ended_s = (number + 1) / 20
        outcome = OPEN if ended_s > 15 else CORRECT
        record.requests.add(
            LOAD, user=number, request=number % 2, sent_s=number / 40, ended_s=min(15.0, ended_s), outcome=outcome
        )
    assert [(one.response_s.p50 is None, one.response_s.p99) for one in summary(record)[0].requests] == [
        (False, None)
    ] * 2


def test_the_availability_of_each_request_is_unknown_if_the_tool_does_not_say_which_were_lost() -> None:
    record = mixed()
    record.unlisted_losses = 10
    case, outcomes = summary(record, requirements=("GET /list availability >= 50%", "GET /list availability >= 99%"))
    assert [request.availability_pct for request in case.requests] == [None, None]
    low, high = case.requests[0].metrics["availability_pct"].interval
    assert low < 100 * 60 / 70 < high == 100
    assert outcomes[1] == "undecided"
    assert outcomes[0] != "missed"


def test_a_request_keeps_its_row_if_all_its_responses_may_be_lost() -> None:
    record = mixed()
    record.requests.request[:] = [0] * len(record.requests)
    record.unlisted_losses = 20
    of_reports = summary(record)[0].requests[1]
    assert (of_reports.name, of_reports.share_pct, of_reports.availability_pct) == ("POST /report", 0, None)
    assert of_reports.metrics["availability_pct"].interval == (0, 100)
