"""Cases are identified by their server and their values on all axes, in plans, records and reports."""

import itertools
import json

import msgspec
import pytest
from conftest import TESTS
from formatted import formatted
from plans import plan_of
from rows import without
from simulated_record import bare_record, record_of, result_of

from under_siege.compare.diff import compare_results
from under_siege.compare.view import view
from under_siege.judge.ranking import summarize
from under_siege.judge.verdict_rules import RULES, judge
from under_siege.measure.server_command import start_of
from under_siege.record.case import case_of, load_axes
from under_siege.record.record import Samples
from under_siege.record.requests import PING, Requests
from under_siege.record.result import MeasuredSuite, Result, load, save
from under_siege.show.case_names import CaseNames, told_apart


def along(workers=(1, 2), users=(5,), pythons=("3.11.7",), rounds=(1, 2, 3)) -> Result:
    """Return a result of a single-worker server and of a pool whose rate is proportional to its number of workers."""
    records = []
    for round_ in rounds:
        for many in users:
            for python in pythons:
                axes = {"users": many, "python": python}
                records += [bare_record(round_, **axes), record_of("2_loop", round_, **axes)]
                for count in workers:
                    more = {"parameters": {"workers": count}}
                    records.append(record_of("4_pool", round_, workers=count, **axes, **more))
    return result_of(records)


def test_cases_are_equal_if_they_have_the_same_server_and_axis_values_in_any_order() -> None:
    one = case_of("x", {"task": "primes", "users": 5, "threads": 2, "workers": None})
    assert one == case_of("x", {"threads": 2, "users": 5, "task": "primes"})
    for other in ({"task": "digest"}, {"users": 6}, {"threads": 1}, {"python": "3.14"}, {"workers": 1}):
        assert case_of("x", {**dict(one.values), **other}) != one
    assert case_of("y", dict(one.values)) != one
    assert one.load == (("task", "primes"), ("users", 5))
    assert one.parameters == {"threads": 2}


def test_a_ceiling_applies_to_all_cases_that_have_its_axis_values() -> None:
    ceiling = case_of("bare", {"task": "primes", "users": 5})
    assert ceiling.covers(case_of("x", {"task": "primes", "users": 5, "workers": 4}))
    assert not ceiling.covers(case_of("x", {"task": "primes", "users": 6}))
    assert not case_of("bare", {"workers": 2}).covers(case_of("x", {"users": 5}))


def test_only_strategies_with_a_pool_have_a_workers_axis() -> None:
    plan = plan_of("2", "3", "4", workers=[2, 4])
    planned = [(case.server[0], case.get("workers")) for case in plan.cases]
    assert planned == [("2", None), ("3", 2), ("3", 4), ("4", 2), ("4", 4)]
    assert [case.server for case in plan.ceilings] == ["bare"]  # it has no workers axis and is measured once
    assert plan.turns() == 6
    case = plan.cases[-1]
    with start_of(plan, case, 8003, {}) as start:
        assert start.words[-2:] == ["--workers", "4"]
    assert "--workers" not in plan.targets["2_async"].command_for(plan.cases[0])


def test_scripts_whose_number_of_workers_is_unknown_have_a_workers_axis() -> None:
    plan = plan_of(TESTS / "servers" / "sends_no_http.py", workers=[2, 4])
    assert [case.get("workers") for case in plan.cases] == [2, 4]


def test_cases_of_one_server_are_ranked_separately_and_named_by_axis_values() -> None:
    result = along()
    one, two, loop = (
        next(one for one in summarize(result).cases if (one.server, one.workers) == wanted)
        for wanted in (("4_pool", 1), ("4_pool", 2), ("2_loop", 1))
    )
    assert (two.rank, one.rank, loop.rank) == (1, 2, 2)
    assert (one.parameters, two.parameters, loop.parameters) == ({"workers": 1}, {"workers": 2}, {})
    assert {one.ceiling_per_s for one in (one, two, loop)} == {two.ceiling_per_s}
    cases = json.loads(formatted(result, "json"))["cases"]
    assert [case["parameters"] for case in cases] == [{}, {"workers": 1}, {"workers": 2}]


AXES = {"workers": {}, "users": {"users": (5, 10)}, "Pythons": {"pythons": ("3.11.7", "3.14.7")}}


@pytest.mark.parametrize("axis", AXES)
def test_a_table_shows_one_axis_as_a_column_and_two_axes_as_a_matrix(axis: str, golden) -> None:
    golden(formatted(along(**AXES[axis]), "table"))


def routes(**axes: tuple) -> Result:
    """Return a result of one server with three paths; `/report/def` has twice the rate of the others."""
    records = []
    for round_ in (1, 2, 3):
        for values in (dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values())):
            for path in ("/report/async", "/report/def", "/report/pool"):
                parameters = {"path": path, **values}
                users = parameters.pop("users", 5)
                workers = 2 if path == "/report/def" else 1
                records.append(bare_record(round_, users=users, parameters=parameters))
                records.append(record_of("shop", round_, workers=workers, users=users, parameters=parameters))
    return msgspec.structs.replace(result_of(records), suite=MeasuredSuite(title="shop"))


def test_routes_are_ranked_against_each_other_only_if_there_is_a_single_server(golden) -> None:
    result = routes()
    assert [case.rank for case in summarize(result).cases] == [2, 1, 2]
    golden(formatted(result, "table"))
    result.records.append(record_of("other", parameters={"path": "/report/def"}))
    assert [case.rank for case in summarize(result).cases if case.server == "shop"] == [1, 1, 1]


def test_routes_and_users_are_shown_in_one_table(golden) -> None:
    golden(formatted(routes(users=(5, 10)), "table"))


def test_servers_with_one_path_each_are_ranked_against_each_other_even_if_the_paths_differ() -> None:
    paths = {"one": "/a", "two": "/b"}
    cases = [case_of(server, {"path": path, "users": 5}) for server, path in paths.items()]
    assert load_axes(cases) == {"users"}
    assert load_axes([*cases, case_of("two", {"path": "/a", "users": 5})]) == {"path", "users"}


def test_the_axis_with_fewer_values_becomes_the_columns() -> None:
    for paths, workers, axis in (("abc", (1, 2), "workers"), ("ab", (1, 2, 3), "path")):
        values = [{"path": path, "workers": count} for path in paths for count in workers]
        assert CaseNames(record_of("x", parameters=each) for each in values).across == [axis]


def test_long_axis_values_are_shortened_to_the_parts_that_differ() -> None:
    long = "/api/v1/customers/reports"
    assert told_apart([f"{long}/async", f"{long}/def"], 24) == {f"{long}/async": "…async", f"{long}/def": "…def"}
    paths = ["/a/async?size=10", "/a/def?size=10"]
    assert told_apart(paths, 10) == dict(zip(paths, ("…async…", "…def…"), strict=True))
    assert told_apart(["/a", "/b"], 24) == {"/a": "/a", "/b": "/b"}
    same_ends = [f"a{'b' * 30}{middle}{'c' * 30}" for middle in "12"]
    assert len(set(told_apart(same_ends, 24).values())) == 2


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("format_", ["table", "markdown", "csv", "json", "html"])
def test_every_output_format_shows_all_cases(format_: str) -> None:
    shown = " ".join(formatted(along(users=(5, 10), pythons=("3.11.7", "3.14.7")), format_).split())
    for word in ("4_pool", "2_loop", "3.14.7", "10"):
        assert word in shown


def test_another_round_of_some_cases_includes_the_ceilings_of_these_cases() -> None:
    plan = plan_of("2", "4", workers=[1, 2])
    wanted = [case for case in plan.cases if case.get("workers") == 2]
    assert plan.among([*plan.cases, *plan.ceilings], wanted) == [*wanted, *plan.ceilings]


def test_a_different_number_of_workers_is_reported_unless_workers_is_an_axis(golden) -> None:
    one, two = along(workers=(1,)), along(workers=(2,))
    (found,) = [pair for pair in compare_results(one, two).cases if pair.case.server == "4_pool"]
    assert found.changes[0].fraction == pytest.approx(1, abs=0.1)
    golden(*(note.text for note in view(compare_results(one, two)).notes))
    both = compare_results(along(), along(workers=(2, 4)))
    found = {pair.case.get("workers"): pair for pair in both.cases if pair.case.server == "4_pool"}
    assert found[1].judgement == "gone"
    assert found[2].changes[0].fraction == pytest.approx(0, abs=0.01)
    assert found[4].base is None


def test_the_result_file_contains_all_axes(tmp_path) -> None:
    save(along(), tmp_path / "r.json")
    read = load(tmp_path / "r.json")
    assert read == along()
    assert read.records[2].case == case_of("4_pool", {"task": "primes", "users": 5, "python": "3.11.7", "workers": 1})


def test_verdict_rules_whose_data_is_missing_are_skipped() -> None:
    """Use a server without CPU samples or pings."""
    whole, bare = record_of("1_x", workers=2, speed=3), record_of("2_x", workers=2, speed=3)
    for record in (whole, bare):
        record.idle_answer_s = 0.001
    bare.samples, bare.machine = Samples(), None
    without(bare, PING)
    comparison = summarize(result_of([bare_record(), whole, bare]))
    codes = [{reason.code for reason in one.reasons} for one in comparison.cases]
    assert codes[0] >= {"above_ceiling", "too_fast", "too_cheap"}
    assert codes[1] >= {"above_ceiling", "too_fast"}
    assert "too_cheap" not in codes[1]
    assert comparison.cases[1].memory_bytes is None
    (rounds,) = [rounds for rounds in comparison.rounds if rounds[0].record is bare]
    assert judge(rounds, {}, comparison.evidence)


@pytest.mark.parametrize("code", ["littles_law", "pings", "timer", "too_fast"])
def test_a_verdict_rule_raises_no_flag_if_the_data_is_empty(code: str) -> None:
    """Use a record without responses, pings, CPU times or reference runs."""
    empty = record_of("2_x", machine=None)
    empty.requests, empty.samples = Requests(), Samples()
    missing = summarize(result_of([empty]))
    (rule,) = [rule for rule in RULES if rule.code == code]
    assert rule.of_round is not None
    assert rule.of_round(missing.rounds[0][0], missing.evidence) is None
