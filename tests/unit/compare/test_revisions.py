"""Comparisons of two revisions in one run."""

import json

import msgspec
import numpy as np
import pytest
from formatted import formatted
from simulated_comparisons import NEW, two_revisions
from simulated_results import as_text

from under_siege.compare.diff import compare_revisions
from under_siege.judge.ranking import summarize
from under_siege.judge.requirement_check import require
from under_siege.record.result import MeasuredSuite
from under_siege.report import view_of


def test_a_slower_revision_is_reported_as_worse(golden) -> None:
    result = two_revisions(np.random.default_rng(1), 0.8)
    comparison = compare_revisions(result)
    assert [case.judgement for case in comparison.cases] == ["worse"]
    assert comparison.exit_code == view_of(result).exit_code == 1
    golden(as_text(comparison))
    data = json.loads(formatted(result, "json"))["revisions"]
    assert data["cases"][0]["figures"]["rate_per_s"]["judgement"] == "worse"
    swapped = msgspec.structs.replace(result, suite=MeasuredSuite(title="shop", against=NEW))
    assert [case.judgement for case in compare_revisions(swapped).cases] == ["better"]
    assert compare_revisions(swapped).exit_code == 0


@pytest.mark.parametrize(
    ("rounds", "factor", "expected"),
    [(8, 1.0, "no difference"), (8, 0.9, "worse"), (1, 1.0, "undecided"), (1, 0.4, "worse")],
)
def test_the_number_of_rounds_decides_which_change_is_significant(rounds: int, factor: float, expected: str) -> None:
    """tests/extended/test_comparison_study.py counts the errors in many simulated comparisons."""
    result = two_revisions(np.random.default_rng(6), factor, noise=0.03, rounds=rounds)
    assert compare_revisions(result).cases[0].judgement == expected


def test_a_slower_revision_within_the_tolerance_of_the_run_is_not_worse() -> None:
    result = two_revisions(np.random.default_rng(1), 0.8)
    for tolerance, exit_code in ((0.3, 0), (0.05, 1)):
        suite = msgspec.structs.replace(result.suite, tolerance=tolerance)
        assert view_of(msgspec.structs.replace(result, suite=suite)).exit_code == exit_code


def test_requirements_apply_to_the_new_revision() -> None:
    result = two_revisions(np.random.default_rng(5), 0.8)
    require(summarize(result), ["rate >= 0.97 of base"], has_base=True)
    required = compare_revisions(result).required
    assert [(check.case.case.get("revision"), check.outcome) for check in required] == [(NEW, "missed")]
