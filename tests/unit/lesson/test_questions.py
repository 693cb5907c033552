"""The answers in lesson/questions.md agree with the committed results."""

import functools
import re

import pytest
from conftest import ROOT

from under_siege.lesson.claims import HOLDS, ResultView, decide
from under_siege.lesson.step import Claim
from under_siege.record.result import load

TEXT = (ROOT / "lesson" / "questions.md").read_text()
CLAIM = re.compile(r"<!-- (\S+): ([^:]+): ([^:]+?)(?:: ([^:]+?))? -->")
QUESTIONS, ANSWERS = TEXT.split("\n---\n")


@functools.cache
def seen(result: str) -> ResultView:
    return ResultView(load(ROOT / result))


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)]


def test_each_of_the_ten_questions_has_an_answer_with_a_claim() -> None:
    assert numbers(QUESTIONS) == numbers(ANSWERS) == list(range(1, 11))
    answers = re.split(r"^\d+\. ", ANSWERS, flags=re.MULTILINE)[1:]
    assert all(CLAIM.search(answer) for answer in answers)
    assert len(CLAIM.findall(ANSWERS)) == ANSWERS.count("<!--")


@pytest.mark.parametrize(("result", "of", "requires", "base"), CLAIM.findall(ANSWERS))
def test_the_committed_result_confirms_each_claim_of_the_answers(
    result: str, of: str, requires: str, base: str
) -> None:
    claim = Claim(of, (requires,), base, claim="it", says="{of} {base}")
    found = decide(claim, seen(result))
    assert found.outcome == HOLDS, f"{found.sentence} {found.reason}"
