"""Why requests failed: what the server said, or a limit that counts idle connections; and why an interval is wide."""

from rows import set_status
from simulated_record import record_of, result_of

from under_siege.judge.ranking import summarize
from under_siege.record.record import Record

LIMIT = "a limit such as uvicorn's --limit-concurrency also counts idle connections"
TIMEOUT = "[CRITICAL] WORKER TIMEOUT (pid:8)"


def reason(record: Record, code: str = "availability") -> str:
    (case,) = summarize(result_of([record])).cases
    return next((each.message for each in case.reasons if each.code == code), "")


def refusing(status: int, *, is_idle: bool, said: str = "") -> Record:
    record = record_of("1_a", server_said=said)
    set_status(record, status, range(3))
    if is_idle:
        record.samples.cpu_s[:] = [0.01 * index for index in range(len(record.samples.cpu_s))]
    return record


def test_an_idle_server_that_refuses_requests_probably_counts_idle_connections() -> None:
    assert LIMIT in reason(refusing(503, is_idle=True))
    assert LIMIT not in reason(refusing(503, is_idle=False))
    assert LIMIT not in reason(refusing(500, is_idle=True))


def test_the_cause_that_the_server_prints_comes_first() -> None:
    message = reason(refusing(503, is_idle=True, said=TIMEOUT))
    assert "raise --timeout" in message
    assert LIMIT not in message


def test_few_responses_need_a_longer_time_not_more_rounds() -> None:
    few = [record_of("1_a", round_, users=1, speed=speed) for round_, speed in ((1, 0.1), (2, 0.3))]
    for record in few:
        record.machine = None
    (case,) = summarize(result_of(few)).cases
    messages = [each.message for each in case.reasons if each.code == "wide_interval"]
    assert [message.partition(",")[0] for message in messages] == ["too few responses to tell the rate"]
