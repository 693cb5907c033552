"""The lesson: its steps, the command and the HTML page."""

import functools
import re
from pathlib import Path

import pytest
from command import invoke
from conftest import ROOT
from markupsafe import escape
from msgspec.structs import replace
from rich.console import Console
from simulated_record import result_of
from simulated_results import a_result

from common.errors import BadInputError
from under_siege.host.interpreter import Interpreter
from under_siege.lesson import measurement, step
from under_siege.lesson import view as lesson_view
from under_siege.lesson.claims import (
    HOLDS,
    ResultView,
    decide_question,
    requirement,
)
from under_siege.lesson.session import WIDTH, overview
from under_siege.lesson.step import (
    Choice,
    Claim,
    CompletedStep,
    LessonProgress,
    LessonStep,
    Question,
    all_steps,
    committed_result,
    read_step,
)
from under_siege.lesson.view import Answered, asked
from under_siege.measure import plan
from under_siege.record.record import Failure
from under_siege.record.result import Result, load, save
from under_siege.show.formats import html
from under_siege.show.formats.table import renderable
from under_siege.show.view import View

STEPS = all_steps()
PAGES = [
    pytest.param(one, page, id=f"{one.number}-{place}") for one in STEPS for place, page in enumerate(one.questions, 1)
]
MOST_LINES, MOST_WORDS = 13, 125  # maximum number of lines of a question, and of words of its explanation
ANSWER = re.compile(r"You said (\w)")


def printed(view: View) -> list[str]:
    """Return the lines that a view prints on a terminal with 80 columns."""
    console = Console(width=WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(renderable(view))
    return captured.get().splitlines()


@pytest.mark.parametrize(("one", "page"), PAGES)
def test_a_question_with_its_title_fits_on_13_lines(one: LessonStep, page: Question) -> None:
    assert len(printed(asked(one, page))) < MOST_LINES


@pytest.mark.parametrize(("one", "page"), PAGES)
def test_tables_do_not_truncate_figures_at_80_columns(one: LessonStep, page: Question) -> None:
    path = committed_result(one, page)
    if "table" not in page.show or not path.exists():
        pytest.skip("this question shows no table, or has no committed result")
    result, _ = seen(path)
    view = Answered(one, page, "A", result).view()
    lines = printed(View("", tables=view.tables, figures=view.figures if result.steps else ()))
    assert not any("…" in line for line in lines)
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize(("one", "page"), PAGES)
def test_each_lesson_step_has_all_required_parts_and_a_short_explanation(one: LessonStep, page: Question) -> None:
    assert 3 <= len(page.answers) <= 4
    assert len(page.usual) == 1
    assert page.answers[page.letters.index(page.usual)].when
    assert {name for answer in page.answers for name in answer.when} <= {claim.name for claim in page.claims}
    assert page.run or page.result
    assert all(claim.claim for claim in page.claims if claim.says)
    assert one.exercise.strip()
    texts = [page.why, *(claim.says for claim in page.claims if claim.says)]
    assert sum(len(text.split()) for text in texts) <= MOST_WORDS
    assert all(1 <= len(code.excerpt().splitlines()) <= 3 for code in page.code)
    assert all(requirement(text) for claim in page.claims for text in claim.requires)


@functools.cache
def seen(path: Path) -> tuple[Result, ResultView]:
    result = load(path)
    return result, ResultView(result)


@pytest.mark.parametrize(("one", "page"), PAGES)
def test_the_usual_answer_of_each_step_is_right_in_the_committed_result(one: LessonStep, page: Question) -> None:
    """Also check every claim that is shown as a sentence."""
    path = committed_result(one, page)
    if not path.exists():
        pytest.skip(f"{path.relative_to(ROOT)} has not been measured yet")
    result, figures = seen(path)
    found = decide_question(page, figures)
    told = [
        one
        for one in found.claims
        if one.claim.says and (result.traces or not one.claim.requires[0].startswith("at once"))
    ]
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
        ("title =", "not a step"),
    ],
)
def test_an_invalid_step_is_rejected_with_a_one_line_error(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "01_x.toml"
    path.write_text(text)
    with pytest.raises(BadInputError, match=message) as refused:
        read_step(path)
    assert "\n" not in str(refused.value)


# The command


def test_lesson_list_shows_every_step(tmp_path: Path) -> None:
    said = invoke("lesson", "--list", folder=tmp_path)
    assert said.returncode == 0
    assert [line.split(maxsplit=1) for line in said.stdout.splitlines()] == [
        [str(one.number), one.title] for one in STEPS
    ]
    assert len(STEPS) == 14
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["99"], "no step '99': expected 1 to 14"),
        (["1", "2"], "more than one step"),
        (["12", "--answer", "Z"], "step 12 accepts A, B, C"),
        (["12", "--answer", "AB"], "2 letters for 5 questions"),
        (["12", "--answer", "?"], "is not a letter"),
        (["12"], "no prediction on stdin: expected one of A, B, C"),
        (["check"], "check needs one file"),
        (["check", "one.py", "two.py"], "check needs one file"),
    ],
)
def test_invalid_lesson_arguments_are_rejected_with_a_one_line_error(
    words: list[str], message: str, tmp_path: Path
) -> None:
    said = invoke("lesson", *words, folder=tmp_path)
    assert said.returncode == 2
    assert message in said.stderr
    assert len(said.stderr.splitlines()) == 1


def test_an_invalid_progress_file_is_rejected_with_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "lesson-progress").mkdir()
    (tmp_path / "lesson-progress" / "progress.json").write_text("[]")
    said = invoke("lesson", "12", "--answer", "A", folder=tmp_path)
    assert (said.returncode, len(said.stderr.splitlines())) == (2, 1)


def test_the_progress_of_the_lesson_is_saved(tmp_path: Path) -> None:
    said = invoke("lesson", "12", "--answer", "CBACB", folder=tmp_path)
    assert said.returncode == 0
    assert ANSWER.findall(said.stdout) == list("CBACB")
    assert said.stdout.count("and that is right") == 5
    progress = LessonProgress(tmp_path / "lesson-progress")
    assert progress.completed.keys() == {"12_detective"}
    assert progress.next_of(STEPS) == STEPS[0]
    assert "12  done  Detective                       you said CBACB, it was CBACB" in overview(STEPS, progress)


@pytest.mark.usefixtures("undrawn")
def test_a_wrong_prediction_is_explained_within_80_columns_and_on_the_page(tmp_path: Path) -> None:
    said = invoke("lesson", "12", "--answer", "A", "--html", "page.html", folder=tmp_path)
    assert said.returncode == 0
    assert "You said A; it is C: 591.66 per second is impossible" in " ".join(said.stdout.split())
    assert [line for line in said.stdout.splitlines() if len(line) > WIDTH] == []
    page = (tmp_path / "page.html").read_text()
    assert "You said A; it is C: 591.66 per second is impossible" in page
    assert "<h2>12. Detective</h2>" in page
    assert "<h2>1. " not in page
    assert re.search("Not done yet: 1. .*, 14. Streams", page)


def test_a_step_that_cannot_run_on_this_machine_shows_the_committed_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "usable_cpus", lambda: 1)
    monkeypatch.setattr(measurement, "is_python", lambda _: True)
    said = " ".join(invoke("lesson", "7", "--answer", "B", folder=tmp_path).stdout.split())
    assert "This machine has 1 usable CPU, but this step needs 2: on one CPU, no two tasks" in said
    assert "measured on another machine, with 2 CPUs," in said
    assert "results/pythons.json.gz" in said
    assert "You said B, and that is right." in said


PYTHONS = {"python3.14": "3.14.7", "python3.14t": "3.14.7t"}


def pythons_are(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str]) -> None:
    """Pretend that only these interpreters are installed, with these versions."""

    def interpreter(name: str, _oldest: object = None) -> Interpreter:
        if name not in versions:
            raise BadInputError(f"no interpreter {name!r}")
        version = versions[name]
        return Interpreter(name, version, version, (3, 14), f"/opt/{version}")

    monkeypatch.setattr(measurement, "interpreter", interpreter)
    monkeypatch.setattr(plan, "interpreter", interpreter)


@pytest.mark.parametrize(
    ("one", "page"), [each for each in PAGES if each.values[1].run and each.values[1].run.only], ids=str
)
def test_only_the_cases_that_a_step_selects_are_measured(
    one: LessonStep, page: Question, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    planned = []
    pythons_are(monkeypatch, PYTHONS)
    monkeypatch.setattr(measurement, "run_plan", lambda plan, *_, **__: planned.extend(plan.cases) or ((), None, True))
    measurement.measure(page, tmp_path / "r.json", None, [], print)
    assert len(planned) == len(page.run.only)
    claimed = {who for claim in page.claims for who in (claim.of, claim.base)}
    assert claimed <= set(page.run.only)


def test_a_free_threaded_python_is_not_used_as_a_python_with_a_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that `python3.14` is a link to `python3.14t`."""
    pythons_are(monkeypatch, dict.fromkeys(PYTHONS, "3.14.7t"))
    assert list(filter(measurement.is_python, PYTHONS)) == ["python3.14t"]
    assert "has no python3.14" in measurement.missing_here(STEPS[6].questions[0])
    pythons_are(monkeypatch, PYTHONS)
    assert all(map(measurement.is_python, PYTHONS))


def failed(*_: object) -> tuple[Result, None]:
    """Return a result in which every case failed."""
    record = a_result(("2_b", 1, 1.0)).records[0]
    record.failure = Failure("died", "the server died after 0.1 s.")
    return result_of([record]), None


def not_begun(*_: object) -> None:
    raise BadInputError("'/opt/python' can't create a virtual environment")


@pytest.mark.parametrize(("measured", "why"), [(failed, "the server died"), (not_begun, "'/opt/python' can't create")])
def test_a_step_whose_measurement_fails_shows_the_committed_result(
    measured, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("under_siege.lesson.session.measure", measured)
    pythons_are(monkeypatch, PYTHONS)
    ended = invoke("lesson", "7", "--answer", "B", folder=tmp_path)
    said = " ".join(ended.stdout.split())
    assert ended.returncode == 1
    assert f"It could not be measured on this machine: {why}" in said
    assert "The results below were measured on another machine, with 2 CPUs" in said
    assert "You said B, and that is right." in said
    assert LessonProgress(tmp_path / "lesson-progress").completed["07_python_today"].result == ""


def test_an_error_of_the_default_python_ends_the_step_with_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("under_siege.lesson.session.measure", not_begun)
    assert invoke("lesson", "1", "--answer", "B", folder=tmp_path).returncode == 2


def test_the_teaching_page_lists_the_usual_answers_and_its_minutes_add_up() -> None:
    text = (ROOT / "docs" / "teaching.md").read_text()
    for one in STEPS:
        assert re.search(
            rf"^\| {one.number} [^|]+\| {' '.join(page.usual for page in one.questions)} \|", text, re.MULTILINE
        )
    sums = [sum(map(int, re.findall(r"^\| (\d+) \|", part, re.MULTILINE))) for part in text.split("\n## ")[1:3]]
    assert sums == [90, 250]
    assert "".join(page.usual for one in STEPS for page in one.questions) in text


SMALL = """
title = "Small"
question = "How many are in hand at once?"
usual = "A"
why = "One after the other."
exercise = "Do it again."
answers = [{text = "One.", when = ["one"]}, {text = "Two.", when = []}, {text = "All.", when = []}]
claims = [{name = "one", of = "2", requires = ["at once <= 1"], claim = "one is", says = "At most {of}."}]
[run]
servers = ["2"]
tasks = ["digest"]
requests = 2
"""


def test_a_step_of_the_lesson_is_measured_shown_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "01_small.toml").write_text(SMALL)
    monkeypatch.setattr(step, "LESSON", tmp_path)
    said = invoke("lesson", "--answer", "B", "--html", "page.html", folder=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "You said B; it is A: One." in said.stdout
    assert "✓  At most 1." in said.stdout
    assert "computes" in said.stdout  # the legend of the timeline
    assert len(load(tmp_path / "lesson-progress" / "01_small.json").traces[0].requests.sent_s) == 2
    page = (tmp_path / "page.html").read_text()
    assert "At most 1." in page
    assert "<svg" in page
    assert "A single task (digest) takes" not in said.stdout  # irrelevant for a trace


# The HTML page


ALIKE = Claim("3", ("rate >= 0.83 of base", "rate <= 1.2 of base"), "1", name="same", claim="they are alike")


def completed(folder: Path, text: str) -> tuple[LessonStep, LessonProgress]:
    """Return a step with two questions, in which every text is `text`, as completed in a folder."""
    result = a_result(("1_a", 1, 1.0), ("3_c", 1, 1.0))
    for record in result.records:
        record.title = record.title if record.is_ceiling else text
    save(result, folder / "01_x.json")
    choices, run = (Choice(text, ("same",)),), step.Run(("1", "3"))
    question = Question(text, choices, "A", (ALIKE,), run=run, pictures=("throughput",), show=("table",))
    done, progress = LessonStep("01_x", text, (question, replace(question, why=text)), text), LessonProgress(folder)
    progress.save(done, CompletedStep("AA", "AA", "01_x.json"))
    return done, progress


@pytest.mark.usefixtures("undrawn")
def test_the_lesson_page_escapes_all_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    done, progress = completed(tmp_path, evil)
    made = html.rendered(lesson_view.page([done], progress))
    assert evil not in made
    assert escape(evil) in made


def test_the_lesson_page_explains_each_chart_once(tmp_path: Path) -> None:
    done, progress = completed(tmp_path, "any")
    (step_view,) = lesson_view.page([done], progress).parts
    first, second, exercise = step_view.parts
    assert "95 % confidence interval" in first.figures[0].how
    assert second.figures[0].how == ""
    assert exercise.headline[0].text == "any"
