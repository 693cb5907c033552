"""False alarms of comparisons. tests/extended/test_comparison_study.py counts them in many more simulated ones."""

import numpy as np
import pytest
from simulated_comparisons import compared_cases, most_alarms
from simulated_results import USUAL

from under_siege.compare.diff import CasePair, Change, MetricChange, adjusted_for_tests, ratio_between
from under_siege.judge.estimates import Estimate, chance_of, holm
from under_siege.record.case import case_of

TRIALS = 30


def test_holm_correction_matches_the_textbook_example() -> None:
    steps = holm([0.03, 0.01, 0.04, 0.005], 0.05)
    assert [step.adjusted for step in steps] == pytest.approx([0.06, 0.03, 0.06, 0.02])
    assert [step.level for step in steps] == pytest.approx([0.025, 0.05 / 3, 0.025, 0.0125])
    assert holm([], 0.05) == []


def test_a_change_that_is_significant_alone_is_no_difference_among_many() -> None:
    change = Change(Estimate(0.0, 0.001, 20), Estimate(-0.1, 0.0013, 20), 0.0)
    assert 0.01 < chance_of(change.ratio) < 0.02
    for count, judgement in ((1, "worse"), (20, "no difference")):
        changes = (MetricChange("rate_per_s", None, None, change, is_judged=True),) * count
        (case,) = adjusted_for_tests([CasePair(case_of("1_x", {}), None, None, changes)])
        assert {each.judgement for each in case.changes} == {judgement}


def test_only_the_case_that_is_ten_percent_slower_is_reported() -> None:
    rng, alarms = np.random.default_rng(7), 0
    for _ in range(TRIALS):
        *equal, slower = compared_cases(rng, 5, {(4, 0): np.log(0.9)}, USUAL)
        assert slower.judgement == "worse"
        alarms += any(case.judgement != "no difference" for case in equal)
    assert alarms <= most_alarms(TRIALS)


def test_a_change_has_no_degrees_of_freedom_if_a_result_has_one_round() -> None:
    sure, single = Estimate(0.0, 1.0, 2.0), Estimate(0.0, 4.0, 2.0)
    assert ratio_between(sure, 3, sure, 3).degrees == 2
    assert ratio_between(sure, 3, single, 1).degrees == 0
