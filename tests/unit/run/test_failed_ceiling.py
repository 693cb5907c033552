"""Reports of results whose ceiling failed or was not measured."""

import itertools

import pytest
from formatted import formatted
from simulated_record import bare_record, record_of, result_of

from under_siege.compare import diff
from under_siege.compare.view import view
from under_siege.judge.ranking import summarize
from under_siege.judge.stopping_rule import wanted
from under_siege.record.record import Failure, Record, Trace
from under_siege.record.requests import Requests
from under_siege.record.result import Result
from under_siege.show.formats.table import rendered

ROUNDS = (1, 2, 3)
WHY = (
    "the process that measures the ceiling ended with exit code 1; "
    "its last line: the task raised ValueError: out of luck"
)
FOR_READERS = ("table", "markdown", "html")
FORMATS = (*FOR_READERS, "csv", "json", "timeline")


def never_began(round_: int, task: str) -> Record:
    record = bare_record(round_, task=task, failure=Failure("died", WHY), load_s=None)
    record.requests, record.alone_wall_s, record.alone_cpu_s = Requests(), [], []
    return record


def died_at_once(round_: int, task: str) -> Record:
    record = never_began(round_, task)
    record.alone_wall_s += bare_record().alone_wall_s
    record.alone_cpu_s += bare_record().alone_cpu_s
    return record


def died_on_the_way(round_: int, task: str) -> Record:
    return bare_record(round_, speed=3, task=task, failure=Failure("died", WHY), load_s=None)


FAILED = (never_began, died_at_once, died_on_the_way)


def result_with(ceilings: dict[int, object], *tasks: str) -> Result:
    """Return a result of two servers in three rounds; `ceilings` maps rounds to functions that make a ceiling."""
    records = []
    for task, round_ in itertools.product(tasks or ("primes",), ROUNDS):
        if make := ceilings.get(round_):
            records.append(make(round_, task))
        records += [record_of(server, round_, workers, task=task) for server, workers in (("2_one", 1), ("4_two", 2))]
    result = result_of(records)
    result.traces.append(Trace(server="2_one", title="One.", values={"task": "primes", "python": "3.11.7"}))
    return result


def measured(round_: int, task: str) -> Record:
    return bare_record(round_, task=task)


def with_failed(make, rounds) -> dict[int, object]:
    return {number: make if number in rounds else measured for number in ROUNDS}


def text_of(result: Result, format_: str) -> str:
    return " ".join(formatted(result, format_).split())


@pytest.mark.parametrize(
    ("make", "tasks"), [(never_began, ("primes", "digest")), *((make, ("primes",)) for make in FAILED)]
)
def test_every_output_format_shows_a_result_with_a_failed_ceiling(make, tasks, undrawn) -> None:
    result = result_with(with_failed(make, ROUNDS), *tasks)
    for format_ in FORMATS:
        shown = text_of(result, format_)
        assert "4_two" in shown or format_ == "timeline"
        assert "out of luck" in shown or format_ not in FOR_READERS
    assert [one.verdict for one in summarize(result).ceilings] == ["failed"] * len(tasks)


def test_every_output_format_shows_a_result_without_a_ceiling(undrawn) -> None:
    result = result_with({})
    for format_ in FORMATS:
        assert "4_two" in text_of(result, format_) or format_ == "timeline"


@pytest.mark.parametrize("make", FAILED)
def test_measurements_of_a_failed_ceiling_are_ignored(make) -> None:
    failed_once = summarize(result_with(with_failed(make, (2,)))).cases
    as_if_it_never_was = summarize(result_with({1: measured, 3: measured})).cases
    assert [case.of_ceiling for case in failed_once] == [case.of_ceiling for case in as_if_it_never_was]
    assert [case.ceiling_per_s for case in failed_once] == [case.ceiling_per_s for case in as_if_it_never_was]
    for case in summarize(result_with(with_failed(make, ROUNDS))).cases:
        assert (case.ceiling_per_s, case.of_ceiling) == (None, None)
        assert case.rate_per_s is not None


@pytest.mark.parametrize("make", FAILED)
def test_the_csv_has_a_row_for_a_failed_ceiling(make) -> None:
    rows = formatted(result_with(with_failed(make, (2,))), "csv").splitlines()
    assert [",failed,died," in row for row in rows if row.startswith("bare")] == [False, True, False]


@pytest.mark.parametrize(("make", "rounds"), [(never_began, (2,)), (died_on_the_way, ROUNDS), (None, ROUNDS)])
def test_results_with_a_failed_or_missing_ceiling_can_be_compared(make, rounds) -> None:
    complete, broken = result_with(dict.fromkeys(ROUNDS, measured)), result_with(with_failed(make, rounds))
    for base, new in ((complete, broken), (broken, complete), (broken, broken)):
        found = diff.compare_results(base, new)
        assert "20.0 → 20.0" in rendered(view(found))
        assert not any(case.judgement == "worse" for case in found.cases)


@pytest.mark.parametrize("make", [*FAILED, None])
def test_only_unclear_cases_get_another_round_if_the_ceiling_failed_or_is_missing(make) -> None:
    result = result_with(with_failed(make, ROUNDS))
    again, unclear = wanted(result).cases, {one.case for one in summarize(result).cases if one.verdict == "unclear"}
    assert again
    assert set(again) <= unclear
