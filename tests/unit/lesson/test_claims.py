"""Claims are decided by confidence intervals, and the right answers follow from them."""

import math
import re

import pytest
from conftest import ROOT
from simulated_record import result_of
from simulated_results import a_result, suspicious
from simulated_trace import pings_of

from common.errors import BadInputError
from under_siege.capacity.view import view as view_of_capacities
from under_siege.judge.goal import goal
from under_siege.judge.verdict_rules import UNCLEAR
from under_siege.lesson.claims import (
    HOLDS,
    NOT_HERE,
    UNDECIDED,
    ResultView,
    decide,
    decide_question,
    outcome_of,
)
from under_siege.lesson.step import Choice, Claim, Question
from under_siege.lesson.view import verdict, why
from under_siege.record.record import Trace, TracedRequests
from under_siege.record.result import load
from under_siege.show.formats import rendered

ALIKE, MORE, LESS = (">= 0.83 of base", "<= 1.2 of base"), (">= 1.1 of base",), ("<= 0.91 of base",)


def a_claim(*limits: str, metric: str = "rate", of: str = "3", base: str = "1", **words: str) -> Claim:
    requires = tuple(f"{metric} {limit}" for limit in limits)
    return Claim(of, requires, base, claim="so it is", says="{of} and {base}: {times}", **words)


def outcome(claim: Claim, result) -> str:
    return decide(claim, ResultView(result)).outcome


def without_ceiling(result):
    """Return the result without its ceiling, because steps of the lesson measure no ceiling."""
    result.records = [one for one in result.records if not one.is_ceiling]
    for one in result.records:
        one.has_ceiling = False
    return result


EQUAL = a_result(("1_a", 1, 1.0), ("3_c", 1, 1.0))
TWICE = a_result(("1_a", 1, 1.0), ("3_c", 2, 1.0))
NOISY = without_ceiling(a_result(("1_a", 1, 1.0), ("3_c", 1, 1.1), noise=0.2))
ONE_ROUND = without_ceiling(a_result(("1_a", 1, 1.0), ("3_c", 2, 1.0)))
ONE_ROUND.records = [one for one in ONE_ROUND.records if one.round == 1]


@pytest.mark.parametrize(
    ("limits", "result", "expected"),
    [
        (ALIKE, EQUAL, HOLDS),
        (ALIKE, TWICE, NOT_HERE),
        (MORE, TWICE, HOLDS),
        (MORE, EQUAL, NOT_HERE),
        (LESS, TWICE, NOT_HERE),
        ((">= 3 of base",), TWICE, NOT_HERE),
        (("<= 1.5 of base",), EQUAL, HOLDS),
        (("<= 1.5 of base",), TWICE, NOT_HERE),
        (("does not differ from base",), TWICE, NOT_HERE),
        (("differs from base",), TWICE, HOLDS),
        (("does not differ from base",), NOISY, HOLDS),
        (("differs from base",), NOISY, NOT_HERE),
    ],
)
def test_the_confidence_interval_decides_whether_a_claim_holds(limits: tuple[str, ...], result, expected: str) -> None:
    assert outcome(a_claim(*limits), result) == expected


@pytest.mark.parametrize("limits", [ALIKE, LESS])
def test_a_claim_is_undecided_if_its_interval_includes_a_limit(limits: tuple[str, ...], golden) -> None:
    found = decide(a_claim(*limits), ResultView(NOISY))
    assert found.outcome == UNDECIDED
    golden(found.possible)


@pytest.mark.parametrize(
    ("limit", "between", "expected"),
    [
        ("rate >= 1.1 of base", (1.02, 1.15, 1.3), HOLDS),  # significant and large enough
        ("rate >= 1.1 of base", (0.97, 1.15, 1.4), UNDECIDED),
        ("rate >= 1.1 of base", (1.01, 1.05, 1.09), NOT_HERE),  # significant, but too small to matter
        ("rate >= 1.1 of base", (0.9, 1.0, 1.25), UNDECIDED),
        ("rate <= 1.2 of base", (0.7, 0.95, 1.33), UNDECIDED),
        ("rate <= 1.2 of base", (1.12, 1.25, 1.4), NOT_HERE),
        ("rate <= 1.2 of base", (1.02, 1.25, 1.5), UNDECIDED),
        ("rate >= 1.5 of base", (2.0, 3.8, 7.0), HOLDS),  # a wide interval, but entirely above the limit
        ("ping p50 <= 30ms", (0.0, 0.003, 0.027), HOLDS),
        ("p99 >= 60min", (math.inf,) * 3, HOLDS),
        ("p99 >= 60min", (1.9, 2.0, 2.1), NOT_HERE),
    ],
)
def test_the_limits_of_a_claim_include_a_margin(limit: str, between: tuple[float, float, float], expected: str) -> None:
    assert outcome_of(goal(limit), between) == expected


def test_a_claim_about_pings_is_undecided_after_one_round() -> None:
    assert outcome(a_claim(*MORE, metric="ping p50"), ONE_ROUND) == UNDECIDED


def test_a_claim_about_a_suspect_case_or_one_that_was_not_measured_is_undecided(golden) -> None:
    suspect = decide(a_claim(*MORE), ResultView(suspicious(a_result(("1_a", 1, 1.0), ("3_c", 2, 1.0)), "3_c")))
    missing = decide(a_claim(*MORE, of="7"), ResultView(EQUAL))
    assert suspect.outcome == missing.outcome == UNDECIDED
    golden(suspect.reason, missing.reason)


def test_a_claim_about_an_unclear_case_is_decided_by_the_confidence_interval() -> None:
    """The servers of the lesson are honest, so only noise can make them unclear."""
    result = a_result(("1_a", 1, 1.0), ("3_c", 2, 1.0), noise=0.5)
    assert {case.verdict for case in ResultView(result).comparison.cases} == {UNCLEAR}
    assert outcome(a_claim("<= 20 of base"), result) == HOLDS
    assert outcome(a_claim(*ALIKE), result) == UNDECIDED


def test_the_sentence_of_a_claim_contains_the_measured_figures() -> None:
    rates = {one.server: one.rate_per_s.mean for one in ResultView(TWICE).comparison.cases}
    figures = map(float, re.findall(r"[\d.]+", decide(a_claim(*MORE), ResultView(TWICE)).sentence))
    assert [*figures] == pytest.approx([rates["3_c"], rates["1_a"], rates["3_c"] / rates["1_a"]], rel=0.05)


@pytest.mark.parametrize("text", ["rate is faster", "rate >= of base", "rate >= 2 of it", ""])
def test_a_claim_with_an_unknown_requirement_is_rejected(text: str) -> None:
    with pytest.raises(BadInputError, match="is not a goal"):
        decide(Claim("3", (text,)), ResultView(EQUAL))


def test_the_metric_users_inside_follows_littles_law() -> None:
    assert outcome(a_claim(*ALIKE, metric="users inside", base="users"), EQUAL) == HOLDS
    assert outcome(a_claim(*LESS, metric="users inside", base="users"), EQUAL) == NOT_HERE


def a_trace(*ran_s: tuple[float, float], pings_s: tuple[float, ...] = (0.002,)) -> Trace:
    count = len(ran_s)
    requests = TracedRequests(
        [0.0] * count, [to for _, to in ran_s], ["1/t"] * count, [[(*one, None)] for one in ran_s]
    )
    pings = pings_of([0.0] * len(pings_s), list(pings_s))
    return Trace(server="2_b", title="", values={"task": "primes"}, requests=requests, pings=pings)


def test_the_at_once_metric_is_the_maximum_number_of_overlapping_tasks() -> None:
    one_by_one, together = result_of([]), result_of([])
    one_by_one.traces.append(a_trace((0.0, 1.0), (1.0, 2.0), (2.0, 3.0)))
    together.traces.append(a_trace((0.0, 3.0), (0.5, 2.0), (2.0, 3.0)))
    claim = a_claim("<= 1", metric="at once", of="2", base="")
    assert (outcome(claim, one_by_one), outcome(claim, together)) == (HOLDS, NOT_HERE)


# The right answer


def a_page(*answers: tuple[str, ...], claims: tuple[Claim, ...]) -> Question:
    told = tuple(Choice(" ".join(when), when) for when in answers)
    return Question("Which?", told, "A", claims, result="results/lesson/strategies.json.gz", why="Because.")


IS_SAME, IS_MORE = a_claim(*ALIKE, name="same"), a_claim(*MORE, name="more")
BOTH = a_page(("same",), ("more",), claims=(IS_SAME, IS_MORE))


def test_claims_about_a_capacity_use_the_figures_of_the_capacity_table() -> None:
    result = load(ROOT / "results" / "capacity.json.gz")
    table, view = rendered(view_of_capacities(result), "markdown"), ResultView(result)
    for metric in ("capacity", "capacity lower"):
        assert f"| {view.figure(metric, '4').text} |" in table


def test_the_right_answer_follows_from_the_claims() -> None:
    assert [decide_question(BOTH, ResultView(one)).right for one in (EQUAL, TWICE)] == ["A", "B"]


def test_an_unusual_answer_is_right_only_if_the_usual_answer_is_disproved() -> None:
    a_little = ResultView(without_ceiling(a_result(("1_a", 1, 1.0), ("3_c", 1, 1.35), noise=0.07)))
    assert (decide(IS_MORE, a_little).outcome, decide(IS_SAME, a_little).outcome) == (HOLDS, UNDECIDED)
    found = decide_question(BOTH, a_little)
    assert (found.right, found.undecided) == ("", True)


def test_an_answer_whose_claims_do_not_hold_or_are_undecided_is_not_right(golden) -> None:
    disproved = decide_question(a_page(("same", "more"), (), claims=(IS_SAME, IS_MORE)), ResultView(TWICE))
    open_ = decide_question(BOTH, ResultView(NOISY))
    assert [(one.right, one.undecided) for one in (disproved, open_)] == [("", False), ("", True)]
    golden(verdict(BOTH, "A", disproved), verdict(BOTH, "A", open_))


def test_the_feedback_on_an_unusual_right_answer_names_the_usual_answer(golden) -> None:
    found = decide_question(BOTH, ResultView(TWICE))
    golden(verdict(BOTH, "B", found), why(BOTH, found))


def test_each_reason_for_an_undecided_claim_is_printed_once(golden) -> None:
    pings = tuple(a_claim(*limits, metric="ping p50", name=name) for limits, name in ((ALIKE, "same"), (MORE, "more")))
    found = decide_question(a_page(("same",), ("more",), claims=pings), ResultView(ONE_ROUND))
    assert [mark for mark, _ in found.sentences] == [UNDECIDED, UNDECIDED]
    golden(found.reasons)
