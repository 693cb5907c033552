"""The conclusion about a route that might move to a process pool: throughput, health checks, memory and effort."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from formatted import formatted
from simulated_profile import LOOP, MAIN, RENDER, THREAD, profile_of
from simulated_record import CPUS, TASK_S, TIME_S, record_of, result_of

from under_siege.formatting import capitalized
from under_siege.judge.ranking import summarize
from under_siege.record.record import Failure, Machine, PacedRun, Record
from under_siege.record.requests import CORRECT, LOAD, LOST, PING, Requests
from under_siege.record.result import MeasuredSuite, MovedRoute, Result
from under_siege.run.view import view
from under_siege.show.view import View

ROUTE = {"path": "/report", "server": "uvicorn", "function": "report", "file": "shop/main.py", "line": 14}
DIFF = ["--- shop/main.py", "+++ shop/main.py", "@@ -14 +14 @@", "-def report():", "+async def report():"]
POOL = "what-if-processes"
Row = tuple[str, int, float, float] | tuple[str, int, float, float, tuple[float, ...]]  # arguments of `rounds_of`
AS_IS: list[Row] = [("uvicorn", 1, 1.0, 1.06), ("uvicorn", 2, 1.0, 0.614)]


def rounds_of(
    server: str, workers: int, speed: float, ping_s: float, noise_of: Iterable[float] = (1.0, 1.004, 0.997)
) -> Iterable[Record]:
    for number, noise in enumerate(noise_of, 1):
        own = speed * noise * (1 + 0.001 * (number % 3))
        title = "A process pool for /report: what if, on Uvicorn" if server == POOL else "Uvicorn"
        values = {
            "title": title,
            "parameters": {"workers": workers},
            "task": "",
            "has_task": False,
            "has_ceiling": False,
        }
        record = record_of(server, number, workers=workers, speed=own, **values)
        record.values = {name: value for name, value in record.values.items() if value}
        pings = record.requests.sender.index(PING)
        for index in range(pings, len(record.requests.sender)):
            record.requests.ended_s[index] = record.requests.sent_s[index] + ping_s
        record.samples.cpu_s[:] = [value * 1.2 for value in record.samples.cpu_s]
        record.machine = None
        yield record


def of(rows: Iterable[Row], paced: Iterable[PacedRun] = (), **route: object) -> Result:
    result = result_of([record for row in rows for record in rounds_of(*row)])
    result.suite = MeasuredSuite(title="How?", ping="/health", route=MovedRoute(**{**ROUTE, "diff": DIFF, **route}))
    result.paced.extend(paced)
    return result


def shown(result: Result) -> View:
    return view(summarize(result))


def text(result: Result) -> str:
    return " ".join(formatted(result, "table").split())


def at(server: str, workers: int, per_s: float, response_s: float, ping_s: float, count: int = 40) -> PacedRun:
    record = record_of(server, workers=workers, parameters={"workers": workers}, task="", has_task=False)
    record.values = {name: value for name, value in record.values.items() if value}
    record.requests = Requests()
    for number in range(count):
        due_s = number / per_s
        record.requests.add(
            LOAD, due_s=due_s, sent_s=due_s, ended_s=due_s + response_s, status=200, size_bytes=4, outcome=CORRECT
        )
        record.requests.add(PING, due_s=due_s, sent_s=due_s, ended_s=due_s + ping_s, status=200, outcome=CORRECT)
    seen_until_s = count / per_s + response_s
    return PacedRun(record=record, goals=["p99 < 5s"], arrivals_per_s=per_s, seen_until_s=seen_until_s)


def test_the_pool_is_recommended_if_it_ties_and_only_its_health_checks_are_shorter_than_a_response() -> None:
    pool = shown(of([*AS_IS, (POOL, 2, 1.0, 0.010)]))
    main, how = pool.headline
    assert main.text == "Use a process pool for /report (uvicorn, 2 processes beside it)."
    facts = dict(main.facts)
    assert "as it is: " in facts["throughput"]
    assert facts["health check"] == "10 ms p99 under full load; as it is: 1.06 s, with 2 workers: 614 ms"
    assert facts["memory"] == "50 MB; as it is: 25 MB"
    assert "shop/main.py:14, `report`" in how.text
    assert how.code.splitlines() == DIFF


def test_a_diff_is_printed_so_that_it_can_be_applied() -> None:
    lines = ["--- a/shop.py", "+++ b/shop.py", "@@ -1 +1 @@", f"-\t{'long ' * 60}end", "+\tshort", ""]
    printed = formatted(of([*AS_IS, (POOL, 2, 1.0, 0.010)], diff=lines), "table")
    assert f"\n{chr(10).join(lines)}\n" in printed


def test_the_pool_is_recommended_although_it_is_perhaps_somewhat_slower() -> None:
    noisy = [("uvicorn", 2, 1.0, 0.614, (0.9, 1.0, 1.1)), (POOL, 2, 0.87, 0.010, (1.1, 1.0, 0.9))]
    assert shown(of(noisy)).headline[0].text.startswith("Use a process pool for /report")


def test_the_application_as_it_is_is_recommended_if_it_ties_in_throughput_and_health_checks() -> None:
    both_short = [("uvicorn", 1, 1.0, 0.010), ("uvicorn", 2, 1.0, 0.010), (POOL, 2, 1.0, 0.010)]
    both_long = [("uvicorn", 1, 1.0, 0.9), ("uvicorn", 2, 1.0, 0.614), (POOL, 2, 1.0, 0.6)]
    for rows in (both_short, both_long):
        conclusion = shown(of(rows)).headline
        assert conclusion[0].text == "Use uvicorn with 2 workers."
        assert any(remark.startswith("In a process pool, /report has ") for remark in conclusion[0].remarks)
        assert not any(paragraph.code for paragraph in conclusion)


def test_a_function_that_can_not_move_as_it_is_is_named_with_the_reason_and_the_recipes() -> None:
    how = shown(of([*AS_IS, (POOL, 2, 1.0, 0.010)], diff=[], unmovable="`session` can't be pickled")).headline[1]
    assert (how.code, "`session` can't be pickled" in how.text) == ("", True)
    assert "docs/questions/02-process-pool.md" in how.text


def test_the_figures_of_a_pool_that_is_measured_alone_occur_once() -> None:
    (main,) = shown(of([(POOL, 2, 1.0, 0.010)], is_chosen=True)).headline
    assert dict(main.facts)["throughput"]
    assert not any("trans/s" in remark for remark in main.remarks)
    assert any("--strategy as-is" in remark for remark in main.remarks)


IN_THREADS: list[Row] = [*AS_IS, ("what-if-threads", 1, 4.0, 0.010)]


def test_a_coroutine_function_that_should_run_in_threads_gets_a_diff() -> None:
    main, how = shown(of(IN_THREADS, def_diff=["-async def slow():", "+def slow():"])).headline
    assert main.text == "Use threads for /report (uvicorn)."
    assert "shop/main.py:14, `report`. Write `def` instead of `async def`" in how.text
    assert how.code == "-async def slow():\n+def slow():"


def test_the_lines_that_block_are_named_if_a_plain_def_is_not_enough() -> None:
    result = of(IN_THREADS, needs_await="`report` awaits")
    result.profiles.append(profile_of((1, MAIN, [LOOP, RENDER], (90, 10, 10))))
    how = shown(result).headline[1]
    assert not how.code
    assert "shop/main.py:14, `report`. A plain def is not enough: `report` awaits." in how.text
    assert "`await asyncio.to_thread(function)`" in how.text
    assert "These lines block: shop/report.py:23 (`render`)" in how.text


def test_the_lines_that_compute_are_named_if_they_were_sampled() -> None:
    result = of([*AS_IS, (POOL, 2, 1.0, 0.010)], diff=[], unmovable="`session` can't be pickled")
    result.profiles.append(profile_of((1, "Thread-1", [THREAD, RENDER], (90, 80, 80))))
    assert "These lines compute: shop/report.py:23 (`render`)" in shown(result).headline[1].text


def test_a_route_that_waits_is_slower_in_a_pool_and_the_conclusion_says_why() -> None:
    result = of([("uvicorn", 1, 4.0, 0.01), (POOL, 2, 0.9, 0.01)])
    for record in result.records:
        record.samples.cpu_s[:] = [value / 20 for value in record.samples.cpu_s]
        record.idle_answer_s = TASK_S
    assert "because it mostly waits, and 2 processes answer only 2 requests at a time" in text(result)


@pytest.mark.parametrize("verdict", ["other programs", "suspect"])
def test_a_route_that_lacks_cpu_time_is_not_said_to_wait(verdict: str) -> None:
    result = of([("uvicorn", 1, 4.0, 0.01), (POOL, 2, 0.9, 0.01)])
    for record in result.records:
        record.samples.cpu_s[:] = [value / 20 for value in record.samples.cpu_s]
        record.idle_answer_s = TASK_S
        if verdict == "other programs":
            record.machine = Machine(total_s=CPUS * TIME_S, busy_s=CPUS * TIME_S, steal_s=0.0, idle_s=0.0)
        elif record.server == POOL:
            record.requests.outcome[record.requests.sender.index(LOAD)] = LOST
    assert "In a process pool, /report has " in text(result)
    assert "mostly waits" not in text(result)


def test_the_rate_of_a_row_that_is_not_recommended_has_its_margin_and_its_verdict() -> None:
    result = of([*AS_IS, (POOL, 2, 0.5, 0.010)])
    (remark,) = [each for each in shown(result).headline[0].remarks if each.startswith("In a process pool")]
    assert " ± " in remark
    assert "suspect" not in remark
    for record in result.records:
        if record.server == POOL:
            record.requests.outcome[record.requests.sender.index(LOAD)] = LOST
    (remark,) = [each for each in shown(result).headline[0].remarks if each.startswith("In a process pool")]
    assert "trans/s (suspect)" in remark


@pytest.mark.parametrize(("is_chosen", "exit_code"), [(False, 0), (True, 1)])
def test_a_row_that_failed_fails_the_run_only_if_the_user_asked_for_it(is_chosen: bool, exit_code: int) -> None:
    result = of([*AS_IS, (POOL, 2, 1.0, 0.010)], is_chosen=is_chosen)
    for record in result.records:
        if record.server == POOL:
            record.failure = Failure("died", "the application can't start in another process")
    seen = shown(result)
    assert seen.exit_code == exit_code
    assert any("can't start in another process" in note.text for note in seen.notes)


def test_the_wrapper_is_named_below_the_table() -> None:
    notes = shown(of([*AS_IS, (POOL, 2, 1.0, 0.010), ("what-if-threads", 1, 1.0, 0.5)])).notes
    texts = {note.subject: note.text for note in notes if "under_siege_what_if" in note.text}
    assert "/report ran in a process pool?" in texts[POOL]
    assert "/report ran in threads?" in texts["what-if-threads"]
    assert "under_siege_what_if" not in text(of(AS_IS))


MOVES: list[Row] = [*AS_IS, (POOL, 2, 1.0, 0.010)]
STAYS: list[Row] = [("uvicorn", 1, 1.0, 0.010), ("uvicorn", 2, 1.0, 0.010), (POOL, 2, 1.0, 0.010)]
STAY = "leave it as it is"
USE_POOL = "use a process pool for /report (uvicorn, 2 processes beside it)"


def test_the_conclusion_also_says_what_happens_at_the_rate_of_practice() -> None:
    rows, paced = MOVES, [at("uvicorn", 1, 10.0, 0.31, 0.24), at(POOL, 2, 10.0, 0.07, 0.009)]
    assert (
        "At 10/s (p99): health checks 9.0 ms in the pool, 240 ms as it is; responses 70 ms and 310 ms."
        in shown(of(rows, paced)).headline[0].remarks
    )
    data = json.loads(formatted(of(rows, paced), "json"))["route"]
    assert (data["file"], data["line"], data["diff"]) == ("shop/main.py", 14, DIFF)
    cases = data["at_rate"]["cases"]
    assert [(each["server"], each["arrivals_per_s"]) for each in cases] == [("uvicorn", 10.0), (POOL, 10.0)]
    assert [each["ping_p99_s"] for each in cases] == pytest.approx([0.24, 0.009])
    without_pings = [at("uvicorn", 1, 10.0, 0.31, 0.24), at(POOL, 2, 10.0, 0.07, 0.009)]
    for step in without_pings:
        step.record.requests = step.record.requests.only(LOAD)
    seen = shown(of(rows, without_pings)).headline[0].remarks
    assert "At 10/s (p99): responses 70 ms in the pool, 310 ms as it is." in seen


@pytest.mark.parametrize(
    ("response_s", "ping_s", "decision", "strategy", "if_pool", "if_as_is"),
    [
        pytest.param((0.31, 0.07), (0.24, 0.009), "use the pool: ", "processes", "", USE_POOL, id="better"),
        pytest.param((0.31, 0.32), (0.24, 0.009), "use the pool: ", "processes", "", USE_POOL, id="better for pings"),
        pytest.param((0.43, 1.17), (0.41, 0.33), f"{STAY}: responses are ", "as-is", STAY, "", id="worse"),
        pytest.param((0.08, 0.07), (0.03, 0.009), "it doesn't matter: ", "as-is", STAY, "", id="the same"),
        pytest.param((0.31, 0.61), (0.24, 0.009), "choose by which matters more", None, "", "", id="mixed"),
    ],
)
def test_headline_and_data_agree_with_the_decision_at_the_rate_of_practice(
    response_s: tuple[float, float],
    ping_s: tuple[float, float],
    decision: str,
    strategy: str | None,
    if_pool: str,
    if_as_is: str,
) -> None:
    paced = [at("uvicorn", 2, 3.0, response_s[0], ping_s[0]), at(POOL, 2, 3.0, response_s[1], ping_s[1])]
    for rows, under_load, otherwise in ((MOVES, USE_POOL, if_pool), (STAYS, "use uvicorn with 2 workers", if_as_is)):
        main, *rest = shown(of(rows, paced)).headline
        assert sum(remark.startswith("At 3/s") and "p99" not in remark for remark in main.remarks) == 1
        assert any(remark.startswith("At 3/s") and decision in remark for remark in main.remarks)
        expected = f"Under full load, {under_load}; at 3/s, {otherwise}." if otherwise else f"{under_load}."
        assert main.text == capitalized(expected)
        data = json.loads(formatted(of(rows, paced), "json"))["route"]["at_rate"]
        assert data["decision"]["use"] == strategy
        assert any(paragraph.code for paragraph in rest) == ("a process pool" in main.text)


def test_latencies_at_the_rate_of_practice_that_vary_too_much_decide_nothing() -> None:
    uncertain = at(POOL, 2, 3.0, 0.07, 0.009)
    slow = [number for number, sender in enumerate(uncertain.record.requests.sender) if sender == LOAD][-2:]
    for number in slow:
        uncertain.record.requests.ended_s[number] = uncertain.record.requests.sent_s[number] + 1.0
    main = shown(of(STAYS, [at("uvicorn", 2, 3.0, 0.08, 0.01), uncertain])).headline[0]
    assert main.text == "Use uvicorn with 2 workers."
    assert any("it can't be decided which is better: responses varied too much" in remark for remark in main.remarks)


def test_threads_are_recommended_at_the_rate_of_practice_if_only_they_are_better() -> None:
    threads = "what-if-threads"
    rows: list[Row] = [*STAYS, (threads, 1, 1.0, 0.010)]
    paced = [at("uvicorn", 2, 3.0, 0.3, 0.3), at(POOL, 2, 3.0, 0.3, 0.3), at(threads, 1, 3.0, 0.3, 0.01)]
    main = shown(of(rows, paced)).headline[0]
    assert main.text == "Under full load, use uvicorn with 2 workers; at 3/s, use threads for /report (uvicorn)."
    assert any(remark.startswith("At 3/s, use threads: health checks are ") for remark in main.remarks)


def test_a_moved_route_whose_requests_fail_at_the_rate_of_practice_is_worse() -> None:
    failing = at(POOL, 2, 3.0, 0.07, 0.009)
    for number, sender in enumerate(failing.record.requests.sender):
        if sender == LOAD:
            failing.record.requests.outcome[number] = LOST
    main = shown(of(MOVES, [at("uvicorn", 1, 3.0, 0.08, 0.009), failing])).headline[0]
    assert main.text.endswith(f"; at 3/s, {STAY}.")
    assert any("responses are significantly longer in the pool" in remark for remark in main.remarks)


def with_responses(step: PacedRun, waits_s: Sequence[float], failed: int = 0, count: int = 200) -> PacedRun:
    """Give the first `count` requests of a step these response times, in turn, and let the first ones fail."""
    requests = step.record.requests
    loads = [index for index, sender in enumerate(requests.sender) if sender == LOAD]
    for number, index in enumerate(loads):
        requests.ended_s[index] = requests.sent_s[index] + waits_s[number % len(waits_s)]
        requests.outcome[index] = LOST if number < failed else CORRECT
    kept = [index for index in range(len(requests.sender)) if index not in loads[count:]]
    step.record.requests = requests.rows(kept)
    return step


@pytest.mark.parametrize(
    ("now", "moved", "why"),
    [
        pytest.param(([0.1] * 19 + [1.5],), ([0.9],), "responses varied too much", id="usually longer, though not p99"),
        pytest.param(([0.5], 0, 1), ([0.3], 0, 1), "responses varied too much or were too few", id="one request"),
        pytest.param(([0.3],), ([0.07], 1), "because requests failed in the pool.", id="one of 200 failed"),
        pytest.param(([0.3], 1), ([0.3], 1), "because requests failed in the pool and as it is.", id="failed in both"),
    ],
)
def test_a_pool_with_shorter_health_checks_is_not_recommended_if_its_responses_may_be_worse(
    now: tuple[Any, ...], moved: tuple[Any, ...], why: str
) -> None:
    paced = [
        with_responses(at(server, 2, 3.0, 0.3, ping_s, 200), *of_server)
        for server, ping_s, of_server in (("uvicorn", 0.24, now), (POOL, 0.009, moved))
    ]
    main = shown(of(STAYS, paced)).headline[0]
    assert main.text == "Use uvicorn with 2 workers."
    assert any(why in remark for remark in main.remarks), main.remarks


def test_a_moved_route_is_compared_with_the_application_as_it_is_on_the_same_python() -> None:
    rows: list[Row] = [("uvicorn", 1, 0.5, 1.06), (POOL, 2, 0.5, 0.01)]
    rows += [(server, workers, 1.0, ping_s) for server, workers, _, ping_s in rows]
    paced = [at("uvicorn", 1, 3.0, 0.9, 0.5), at(POOL, 2, 3.0, 0.5, 0.01)]
    paced += [at("uvicorn", 1, 3.0, 0.4, 0.3), at(POOL, 2, 3.0, 0.07, 0.01)]
    result = of(rows, paced)
    for own in (result.records[len(result.records) // 2 :], [step.record for step in paced[2:]]):
        for record in own:
            record.values["python"] = "3.14.0"
    main = shown(result).headline[0]
    assert main.text == "Use a process pool for /report (uvicorn on 3.14.0, 2 processes beside it)."
    assert dict(main.facts)["throughput"].endswith("; as it is: 10.0 ± 0.13 trans/s")
    assert dict(main.facts)["health check"] == "10 ms p99 under full load; as it is: 1.06 s"
    expected = "At 3/s (p99): health checks 10 ms in the pool, 300 ms as it is; responses 70 ms and 400 ms."
    assert expected in main.remarks
    assert not any(remark.startswith("In a process pool") for remark in main.remarks)
