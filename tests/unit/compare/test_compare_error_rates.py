"""False alarms of comparisons. tests/extended/test_comparison_study.py counts them in many more simulated ones."""

import numpy as np
from simulated_comparisons import compared_cases, most_alarms
from simulated_results import USUAL

from under_siege.compare.diff import Change, MetricChange, ratio_between
from under_siege.judge.estimates import Estimate, chance_of

TRIALS = 30


def test_a_change_that_is_significant_alone_is_no_difference_among_many() -> None:
    change = Change(Estimate(0.0, 0.001, 20), Estimate(-0.1, 0.0013, 20), 0.0)
    assert 0.01 < chance_of(change.ratio) < 0.02
    for tests, judgement in ((1, "worse"), (20, "no difference")):
        assert MetricChange("rate_per_s", None, None, change, tests, is_judged=True).judgement == judgement


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
