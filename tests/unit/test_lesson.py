"""The lesson: its claims are decided by what was measured."""

import functools
import html
import io
import itertools
import json
import re
from pathlib import Path

import pytest
from command import called
from conftest import ROOT
from rich.console import Console
from simulated_record import result_of
from simulated_results import a_result, suspicious

from common.errors import BadInputError
from under_siege.checks.verdict import UNCLEAR
from under_siege.lesson import measurement, step, terminal
from under_siege.lesson.assertions import (
    HOLDS,
    NOT_HERE,
    SIMILAR,
    UNDECIDED,
    Found,
    Ratio,
    _outcome_of,
    band,
    found_in,
    judged,
)
from under_siege.lesson.lesson_figures import ResultView
from under_siege.lesson.lesson_page import Unsaid, lesson_as_html
from under_siege.lesson.progress_store import Done, Notebook
from under_siege.lesson.step import Answer, Claim, Page, Step, all_steps, committed, lines_of, read_step
from under_siege.model.record import Failure, Pings, Result, Trace, TracedRequests, load, save
from under_siege.run import plan
from under_siege.targets.interpreter import Interpreter

STEPS = all_steps()
PAGES = [
    pytest.param(one, page, id=f"{one.number}-{place}") for one in STEPS for place, page in enumerate(one.pages, 1)
]
MOST_LINES, MOST_SENTENCES = 12, 5  # before something happens, and after it
ANSWER = re.compile(r"You said (\w)")


def a_claim(is_: str, what: str = "rate", of: str = "3", against: str = "1", **words: str) -> Claim:
    return Claim(what, of, is_, against, claim="so it is", says="{of} and {against}: {times}", **words)


def outcome(claim: Claim, result) -> str:
    return judged(claim, ResultView(result)).outcome


def without_ceiling(result):
    """As a step measures: there is no ceiling that noise could put in doubt."""
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
    ("is_", "result", "expected"),
    [
        ("same", EQUAL, HOLDS),
        ("same", TWICE, NOT_HERE),
        ("more", TWICE, HOLDS),
        ("more", EQUAL, NOT_HERE),
        ("less", TWICE, NOT_HERE),
        ("about 2 times", TWICE, HOLDS),
        ("about 2 times", EQUAL, NOT_HERE),
        ("about {cpus} times", TWICE, HOLDS),
        ("at least 1.5 times", TWICE, HOLDS),
        ("at least 3 times", TWICE, NOT_HERE),
        ("at most 1.5 times", EQUAL, HOLDS),
        ("at most 1.5 times", TWICE, NOT_HERE),
        ("undecided", TWICE, NOT_HERE),
        ("decided", TWICE, HOLDS),
        ("undecided", NOISY, HOLDS),
        ("decided", NOISY, NOT_HERE),
    ],
)
def test_a_claim_is_judged_by_the_interval(is_: str, result, expected: str) -> None:
    assert outcome(a_claim(is_), result) == expected


@pytest.mark.parametrize("is_", ["same", "less", "about 1.2 times"])
def test_a_claim_is_undecided_if_its_interval_reaches_both_sides_of_a_limit(is_: str) -> None:
    found = judged(a_claim(is_), ResultView(NOISY))
    assert found.outcome == UNDECIDED
    assert re.search(r"from [\d.]+ to [\d.]+ times as much", found.possible)


@pytest.mark.parametrize(
    ("is_", "between", "expected"),
    [
        ("more", (1.02, 1.15, 1.3), HOLDS),  # significant and large enough
        ("more", (0.97, 1.15, 1.4), UNDECIDED),
        ("more", (1.01, 1.05, 1.09), NOT_HERE),  # significant, but too small to matter
        ("more", (0.9, 1.0, 1.25), UNDECIDED),
        ("same", (0.8, 0.95, 1.1), HOLDS),
        ("same", (0.7, 0.95, 1.3), UNDECIDED),
        ("same", (1.12, 1.25, 1.4), NOT_HERE),
        ("same", (1.02, 1.25, 1.5), UNDECIDED),
        ("about 2 times", (1.5, 1.8, 2.2), HOLDS),
        ("at least 1.5 times", (2.0, 3.8, 7.0), HOLDS),  # a wide interval, but all of it on one side
        ("at most 1 times", (0.0, 0.1, 0.9), HOLDS),
    ],
)
def test_an_interval_may_pass_a_limit_by_a_margin(is_: str, between: tuple[float, float, float], expected: str) -> None:
    assert _outcome_of(band(is_), Ratio(*between)) == expected


def test_one_round_of_pings_does_not_decide_a_claim() -> None:
    found = judged(a_claim("more", "ping p50"), ResultView(ONE_ROUND))
    assert (found.outcome, found.reason) == (UNDECIDED, "a single round says nothing about noise")


def test_a_suspect_figure_does_not_decide_a_claim() -> None:
    found = judged(a_claim("more"), ResultView(suspicious(a_result(("1_a", 1, 1.0), ("3_c", 2, 1.0)), "3_c")))
    assert found.outcome == UNDECIDED
    assert "3_c is suspect" in found.reason
    assert "no right answer" in found.reason


def test_an_unclear_case_decides_a_claim_by_its_interval() -> None:
    """The servers of the lesson do their work, so only noise can make them unclear."""
    result = a_result(("1_a", 1, 1.0), ("3_c", 2, 1.0), noise=0.5)
    assert {case.verdict for case in ResultView(result).comparison.cases} == {UNCLEAR}
    assert outcome(a_claim("at most 20 times"), result) == HOLDS
    assert outcome(a_claim("same"), result) == UNDECIDED


def test_a_claim_about_a_case_that_was_not_measured_is_undecided() -> None:
    found = judged(a_claim("more", of="7"), ResultView(EQUAL))
    assert (found.outcome, found.reason) == (UNDECIDED, "7 was not measured")


def test_the_sentence_has_the_figures_that_were_measured() -> None:
    rates = {one.server: one.rate_per_s.mean for one in ResultView(TWICE).comparison.cases}
    of, against, times = re.fullmatch(
        r"([\d.]+)/s and ([\d.]+)/s: ([\d.]+)", judged(a_claim("more"), ResultView(TWICE)).sentence
    ).groups()
    assert (float(of), float(against)) == pytest.approx((rates["3_c"], rates["1_a"]), rel=0.01)
    assert float(times) == pytest.approx(rates["3_c"] / rates["1_a"], rel=0.05)


def test_a_small_difference_is_not_said_to_be_none() -> None:
    said = Claim("rate", "3", "same", "1", claim="so it is", says="{same}")
    several = {
        quality: judged(said, ResultView(a_result(("1_a", 1, 1.0), ("3_c", 1, quality), noise=0.003)))
        for quality in (1.0, 1.1)
    }
    assert [one.outcome for one in several.values()] == [HOLDS, HOLDS]
    assert [one.sentence for one in several.values()] == [SIMILAR[True], SIMILAR[False]]


@pytest.mark.parametrize("is_", ["faster", "about twice", "at least times", ""])
def test_words_that_claim_nothing_are_refused(is_: str) -> None:
    with pytest.raises(BadInputError, match="expected same, more, less"):
        band(is_)


def test_littles_law_is_a_figure_of_its_own() -> None:
    assert outcome(a_claim("same", "users inside", against="users"), EQUAL) == HOLDS
    assert outcome(a_claim("less", "users inside", against="users"), EQUAL) == NOT_HERE


def a_trace(*ran_s: tuple[float, float], pings_s: tuple[float, ...] = (0.002,)) -> Trace:
    count = len(ran_s)
    requests = TracedRequests(
        [0.0] * count, [to for _, to in ran_s], ["1/t"] * count, [[(*one, None)] for one in ran_s]
    )
    pings = Pings([0.0] * len(pings_s), [0.0] * len(pings_s), list(pings_s), [""] * len(pings_s))
    return Trace(server="2_b", title="", values={"task": "primes"}, requests=requests, pings=pings)


def test_how_many_tasks_are_in_hand_at_once_is_counted() -> None:
    one_by_one, together = result_of([]), result_of([])
    one_by_one.traces.append(a_trace((0.0, 1.0), (1.0, 2.0), (2.0, 3.0)))
    together.traces.append(a_trace((0.0, 3.0), (0.5, 2.0), (2.0, 3.0)))
    claim = a_claim("at most 1 times", "at once", of="2", against="")
    assert (outcome(claim, one_by_one), outcome(claim, together)) == (HOLDS, NOT_HERE)


# The answer that is right follows from the claims.


def a_page(*answers: tuple[str, ...], claims: tuple[Claim, ...]) -> Page:
    told = tuple(Answer(" ".join(when), when) for when in answers)
    return Page("Which?", told, "A", claims, result="results/sample.json", why="Because.")


SAME, MORE = a_claim("same", name="same"), a_claim("more", name="more")
BOTH = a_page(("same",), ("more",), claims=(SAME, MORE))


def test_the_right_answer_follows_from_the_claims() -> None:
    assert [found_in(BOTH, ResultView(one)).right for one in (EQUAL, TWICE)] == ["A", "B"]


def test_another_answer_than_usual_is_right_only_where_the_usual_one_can_not_be() -> None:
    a_little = ResultView(without_ceiling(a_result(("1_a", 1, 1.0), ("3_c", 1, 1.35), noise=0.07)))
    assert (judged(MORE, a_little).outcome, judged(SAME, a_little).outcome) == (HOLDS, UNDECIDED)
    found = found_in(BOTH, a_little)
    assert (found.right, found.undecided) == ("", True)


def test_an_answer_that_nothing_bears_out_is_not_the_right_one() -> None:
    found = found_in(a_page(("same", "more"), (), claims=(SAME, MORE)), ResultView(TWICE))
    assert (found.right, found.undecided) == ("", False)
    assert "None of the answers fits" in terminal.verdict(BOTH, "A", found)


def test_no_answer_is_right_while_its_claims_are_undecided() -> None:
    found = found_in(BOTH, ResultView(NOISY))
    assert (found.right, found.undecided) == ("", True)
    assert "does not decide whether that is right" in terminal.verdict(BOTH, "A", found)


def test_where_this_machine_shows_something_else_that_is_said() -> None:
    found = found_in(BOTH, ResultView(TWICE))
    assert "You said B, and that is right. On most machines it is A" in terminal.verdict(BOTH, "B", found)
    assert terminal.why(BOTH, found) == "Why it is A on most machines: Because."


def test_a_reason_is_told_once_for_all_claims() -> None:
    pings = a_claim("same", "ping p50", name="same"), a_claim("more", "ping p50", name="more")
    found = found_in(a_page(("same",), ("more",), claims=pings), ResultView(ONE_ROUND))
    assert [mark for mark, _ in found.sentences] == [UNDECIDED, UNDECIDED]
    assert found.reasons == ["A single round says nothing about noise."]


# The steps themselves.


def test_there_are_thirteen_steps_in_their_order() -> None:
    assert [one.number for one in STEPS] == list(range(1, 14))


@pytest.mark.parametrize(("one", "page"), PAGES)
def test_a_question_fits_on_twelve_lines_of_80_columns(one: Step, page: Page) -> None:
    lines = terminal.asked(one, page, 1).splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= terminal.WIDTH


@pytest.mark.parametrize(("one", "page"), PAGES)
def test_a_table_keeps_its_figures_at_80_columns(one: Step, page: Page) -> None:
    path = committed(one, page)
    if "table" not in page.show or not path.exists():
        pytest.skip("there is none")
    result, paper = load(path), io.StringIO()
    result.traces = []
    for picture in terminal.pictures(page, result, ResultView(result)):
        Console(file=paper, width=terminal.WIDTH, color_system=None).print(picture)
    if not result.incidents:  # a drill has a table of its own, which breaks itself
        assert "…" not in paper.getvalue()


@pytest.mark.parametrize(("one", "page"), PAGES)
def test_what_was_found_is_said_in_five_sentences(one: Step, page: Page) -> None:
    found = [claim for claim in page.claims if claim.says]
    assert len(found) + len(re.findall(r"[.?!](?=\s|$)", page.why.strip())) <= MOST_SENTENCES


@pytest.mark.parametrize(("one", "page"), PAGES)
def test_each_part_of_a_step_says_what_it_has_to(one: Step, page: Page) -> None:
    assert 3 <= len(page.answers) <= 4
    assert page.right(page.usual).when
    assert all(claim.claim for claim in page.claims if claim.says)
    assert one.exercise.strip()
    assert all(1 <= len(lines_of(code).splitlines()) <= 3 for code in page.code)
    for claim in page.claims:
        band_or_open = claim.is_.format(cpus=2)
        assert band_or_open in ("undecided", "decided", "identical", "different") or band(band_or_open)


@functools.cache
def seen(path: Path) -> tuple[Result, ResultView]:
    result = load(path)
    return result, ResultView(result)


@pytest.mark.parametrize(("one", "page"), PAGES)
def test_every_claim_holds_in_the_result_that_comes_with_it(one: Step, page: Page) -> None:
    """Of those that are sentences; and the answer that is called the usual one is the one that fits."""
    path = committed(one, page)
    if not path.exists():
        pytest.skip(f"{path.relative_to(ROOT)} was not measured yet")
    result, figures = seen(path)
    found = found_in(page, figures)
    told = [one for one in found.told if result.traces or one.claim.what not in ("at once", "longest ping")]
    assert {one.sentence: one.reason or one.outcome for one in told if one.outcome != HOLDS} == {}
    assert found.right == page.usual


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "title"),
        (
            "title = 'T'\nexercise = 'E'\nquestion = 'Q'\nusual = 'A'\nanswers = []\nclaims = []\nresult = ''\nodd = 1",
            "odd",
        ),
        ("title = 'T'\nexercise = 'E'\nquestion = 'Q'\nusual = 'A'\nclaims = []\nanswers = [{text = 'a'}]", r"\[run\]"),
        (
            "title='T'\nexercise='E'\nquestion='Q'\nusual='B'\nclaims=[]\nresult='r'\nanswers = [{text = 'a'}]",
            "expected one of A",
        ),
        (
            "title='T'\nexercise='E'\nquestion='Q'\nusual='A'\nclaims=[]\nresult='r'\nanswers=[{text='a', when=['x']}]",
            "names of its claims",
        ),
        ("title =", "no step"),
    ],
)
def test_a_file_that_is_no_step_is_refused_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "01_x.toml"
    path.write_text(text)
    with pytest.raises(BadInputError, match=message) as refused:
        read_step(path)
    assert "\n" not in str(refused.value)


# The command.


def test_the_list_shows_every_step(tmp_path: Path) -> None:
    said = called("lesson", "--list", folder=tmp_path)
    assert said.returncode == 0
    assert all(one.title in said.stdout for one in STEPS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["99"], "no step '99': expected 1 to 13"),
        (["1", "2"], "more than one step"),
        (["12", "--answer", "Z"], "step 12 has A, B, C"),
        (["12", "--answer", "AB"], "2 letters for 5 questions"),
        (["12", "--answer", "?"], "is no letter"),
        (["12"], "no prediction came: expected one of A, B, C"),
        (["check"], "expected"),
    ],
)
def test_what_can_not_be_done_is_said_in_one_line(words: list[str], message: str, tmp_path: Path) -> None:
    said = called("lesson", *words, folder=tmp_path)
    assert said.returncode == 2
    assert message in said.stderr
    assert len(said.stderr.splitlines()) == 1


def test_a_notebook_of_something_else_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "lesson-progress").mkdir()
    (tmp_path / "lesson-progress" / "progress.json").write_text("[]")
    said = called("lesson", "12", "--answer", "A", folder=tmp_path)
    assert (said.returncode, len(said.stderr.splitlines())) == (2, 1)


def test_it_goes_on_where_one_has_stopped(tmp_path: Path) -> None:
    said = called("lesson", "12", "--answer", "CBACB", folder=tmp_path)
    assert said.returncode == 0
    assert ANSWER.findall(said.stdout) == list("CBACB")
    assert said.stdout.count("and that is right") == 5
    notebook = Notebook(tmp_path / "lesson-progress")
    assert (notebook.done["12_detective"].predicted, notebook.done["12_detective"].right) == ("CBACB", "CBACB")
    assert notebook.next_of(STEPS) == STEPS[0]
    assert "12  done  Detective                       you said CBACB, it was CBACB" in terminal.overview(
        STEPS, notebook
    )


def test_a_wrong_prediction_is_no_failure_and_the_right_answer_is_said(tmp_path: Path) -> None:
    said = called("lesson", "12", "--answer", "A", folder=tmp_path)
    assert said.returncode == 0
    assert "You said A; it is C: 591.66 can't be" in " ".join(said.stdout.split())


def test_no_line_of_a_step_is_wider_than_80_columns(tmp_path: Path) -> None:
    lines = called("lesson", "12", "--answer", "A", folder=tmp_path).stdout.splitlines()
    assert [line for line in lines if len(line) > terminal.WIDTH] == []


def test_where_the_machine_lacks_something_the_result_of_another_one_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "usable_cpus", lambda: 1)
    monkeypatch.setattr(measurement, "pythons_for", lambda run: run.pythons)
    said = " ".join(called("lesson", "7", "--answer", "B", folder=tmp_path).stdout.split())
    assert "This machine has 1 CPU to give, and this takes 2: with one no two tasks" in said
    assert "measured on another, with 2 CPUs" in said
    assert "results/pythons.json" in said
    assert "You said B, and that is right." in said


PYTHONS = {"python3.14": "3.14.7", "python3.14t": "3.14.7t"}


def pythons_are(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str]) -> None:
    """As far as these are asked who they are."""

    def interpreter(name: str) -> Interpreter:
        if name not in versions:
            raise BadInputError(f"no interpreter {name!r}")
        version = versions[name]
        return Interpreter(name, version, version, (3, 14), f"/opt/{version}")

    monkeypatch.setattr(measurement, "interpreter", interpreter)
    monkeypatch.setattr(plan, "interpreter", interpreter)


@pytest.mark.parametrize(
    ("one", "page"), [each for each in PAGES if each.values[1].run and each.values[1].run.only], ids=str
)
def test_each_case_that_a_step_names_is_run(one: Step, page: Page, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    planned = []
    pythons_are(monkeypatch, PYTHONS)
    monkeypatch.setattr(measurement, "run_plan", lambda plan, *_, **__: planned.extend(plan.cases) or ((), None, True))
    measurement.measure(page, tmp_path / "r.json", None, [], print)
    assert len(planned) == len(page.run.only)
    claimed = {who for claim in page.claims for who in (claim.of, claim.against)}
    assert claimed <= set(page.run.only)


def test_a_case_that_is_not_there_is_refused_before_anything_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    pythons_are(monkeypatch, PYTHONS)
    run = step.Run(("3",), pythons=tuple(PYTHONS), only=("3 3.15*",), time_s=1.0)
    with pytest.raises(BadInputError, match=r"no case fits '3 3\.15\*': there are 3_async"):
        measurement.measure(Page("", (), "", (), run), Path(), None, [], print)


def test_a_python_without_the_gil_is_not_taken_for_one_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was installed, `python3.14` may be the very same."""
    run = STEPS[6].pages[0].run
    pythons_are(monkeypatch, dict.fromkeys(PYTHONS, "3.14.7t"))
    assert measurement.pythons_for(run) == ["python3.14t"]
    assert "has no python3.14" in measurement.lacking(STEPS[6].pages[0])
    pythons_are(monkeypatch, PYTHONS)
    assert measurement.pythons_for(run) == list(PYTHONS)


def failed(*_: object) -> tuple[Result, None]:
    """All of it."""
    record = a_result(("2_b", 1, 1.0)).records[0]
    record.failure = Failure("died", "the server died after 0.1 s.")
    return result_of([record]), None


def not_begun(*_: object) -> None:
    raise BadInputError("'/opt/python' can't make a virtual environment")


@pytest.mark.parametrize(("measured", "why"), [(failed, "the server died"), (not_begun, "'/opt/python' can't make")])
def test_where_nothing_could_be_measured_the_result_of_another_machine_is_shown(
    measured, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("under_siege.lesson.lesson_session.measure", measured)
    pythons_are(monkeypatch, PYTHONS)
    ended = called("lesson", "7", "--answer", "B", folder=tmp_path)
    said = " ".join(ended.stdout.split())
    assert ended.returncode == 1
    assert f"It could not be measured here: {why}" in said
    assert "So what follows was measured on another, with 2 CPUs" in said
    assert "You said B, and that is right." in said
    assert Notebook(tmp_path / "lesson-progress").done["07_python_today"].result == ""


def test_what_ours_lacks_is_to_be_mended_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("under_siege.lesson.lesson_session.measure", not_begun)
    assert called("lesson", "1", "--answer", "B", folder=tmp_path).returncode == 2


def test_the_plan_of_a_teacher_has_the_right_letters_and_its_minutes() -> None:
    text = (ROOT / "docs" / "teaching.md").read_text()
    for one in STEPS:
        assert re.search(
            rf"^\| {one.number} [^|]+\| {' '.join(page.usual for page in one.pages)} \|", text, re.MULTILINE
        )
    sums = [sum(map(int, re.findall(r"^\| (\d+) \|", part, re.MULTILINE))) for part in text.split("\n## ")[1:3]]
    assert sums == [90, 250]
    assert "".join(page.usual for one in STEPS for page in one.pages) in text


SMALL = """
title = "Small"
question = "How many are in hand at once?"
usual = "A"
why = "One after the other."
exercise = "Do it again."
answers = [{text = "One.", when = ["one"]}, {text = "Two.", when = []}, {text = "All.", when = []}]
claims = [{name = "one", what = "at once", of = "2", is = "at most 1 times", claim = "one is", says = "At most {of}."}]
[run]
servers = ["2"]
tasks = ["digest"]
requests = 2
"""


def test_a_step_is_run_shown_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "01_small.toml").write_text(SMALL)
    monkeypatch.setattr(step, "LESSON", tmp_path)
    said = called("lesson", "--answer", "B", "--html", "page.html", folder=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "You said B; it is A: One." in said.stdout
    assert "✓ At most 1." in said.stdout
    assert "computes" in said.stdout  # the legend of the timeline
    assert len(load(tmp_path / "lesson-progress" / "01_small.json").traces[0].requests.sent_s) == 2
    page = (tmp_path / "page.html").read_text()
    assert "At most 1." in page
    assert "<svg" in page
    assert "One task (digest) takes" not in said.stdout  # of a trace alone nothing depends on that


# The page.


def test_the_page_escapes_whatever_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "<script>alert(1)</script>"
    result = a_result(("1_a", 1, 1.0), ("3_c", 1, 1.0))
    for record in result.records:
        record.title = record.title if record.is_ceiling else evil
    save(result, tmp_path / "01_x.json")
    monkeypatch.setattr(step, "ROOT", ROOT)
    page = Page(
        evil, (Answer(evil, ("same",)),), "A", (SAME,), result="", run=step.Run(("1",)), pictures=("throughput",)
    )
    notebook = Notebook(tmp_path)
    notebook.keep(Step("01_x", evil, (page,), evil), Done("A", "A", "01_x.json"))
    made = lesson_as_html([Step("01_x", evil, (page,), evil)], notebook)
    assert evil not in made
    assert html.escape(evil) in made


def test_how_a_picture_is_read_is_told_once() -> None:
    unsaid = Unsaid()
    assert unsaid.of("A bar is a request. There are 8 users.\nWhy?") == "A bar is a request. There are 8 users. Why?"
    assert unsaid.of("A bar is a request. There are 6 users.") == "There are 6 users."
    assert unsaid.of("A bar is a request.") == ""


@pytest.mark.usefixtures("undrawn")
def test_the_page_has_the_steps_that_are_done_and_names_the_others(tmp_path: Path) -> None:
    called("lesson", "12", "--answer", "A", "--html", "page.html", folder=tmp_path)
    page = (tmp_path / "page.html").read_text()
    assert 'id="step-12"' in page
    assert 'id="step-1"' not in page
    assert "13. Noise" in page
    assert json.loads((tmp_path / "lesson-progress" / "progress.json").read_text())["steps"].keys() == {"12_detective"}


def test_found_without_claims_is_nothing() -> None:
    assert Found((), "", undecided=True).sentences == []
    assert list(itertools.chain(Found((), "", undecided=False).told)) == []
