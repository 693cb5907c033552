"""The lesson: its steps, the command and the HTML page."""

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
from under_siege.lesson.claims import HOLDS, requirement
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


def printed(view: View) -> list[str]:
    """Return the lines that a view prints on a terminal with 80 columns."""
    console = Console(width=WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(renderable(view))
    return captured.get().splitlines()


@pytest.mark.parametrize(("one", "page"), PAGES)
def test_each_lesson_step_has_all_required_parts_and_a_short_explanation(one: LessonStep, page: Question) -> None:
    assert len(printed(asked(one, page))) < MOST_LINES
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


@pytest.mark.parametrize(("one", "page"), PAGES)
def test_the_usual_answer_of_each_step_is_right_in_the_committed_result(one: LessonStep, page: Question) -> None:
    """Also check every claim that is shown as a sentence, and that tables fit into 80 columns."""
    result = load(committed_result(one, page))
    answered = Answered(one, page, "A", result)
    found = answered.decision
    shown = [one for one in found.claims if one.claim.says]
    told = [one for one in shown if result.traces or not one.claim.requires[0].startswith("at once")]
    assert {one.sentence: one.reason or one.outcome for one in told if one.outcome != HOLDS} == {}
    assert found.right == page.usual
    view = answered.view()
    lines = printed(View("", tables=view.tables, figures=view.figures if result.steps else ()))
    assert not any("…" in line for line in lines)
    assert max(map(len, lines), default=0) <= WIDTH


WRONG_STEPS = ["", "title =", "title = 'T'\nexercise = 'E'\nquestion = 'Q'\nusual = 'A'\nanswers = []\nodd = 1"]


def test_an_invalid_step_is_rejected_with_a_one_line_error(tmp_path: Path, golden) -> None:
    errors = []
    for text in WRONG_STEPS:
        (tmp_path / "01_x.toml").write_text(text)
        with pytest.raises(BadInputError) as refused:
            read_step(tmp_path / "01_x.toml")
        errors.append(str(refused.value).replace(str(tmp_path), ""))
    assert all(map(str.isprintable, errors))
    golden(*errors)


# The command


def test_lesson_list_shows_every_step(tmp_path: Path) -> None:
    said = invoke("lesson", "--list", folder=tmp_path)
    assert said.returncode == 0
    lines = [line.split(maxsplit=1) for line in said.stdout.splitlines()]
    assert lines == [[str(one.number), one.title] for one in STEPS]
    assert list(tmp_path.iterdir()) == []


WRONG_ANSWERS = [["12", "--answer", letters] for letters in ("Z", "AB", "?")]
WRONG_WORDS = [["99"], ["1", "2"], ["12"], ["check"], ["check", "one.py", "two.py"]]


def test_invalid_lesson_arguments_are_rejected_with_a_one_line_error(tmp_path: Path, golden) -> None:
    said = [invoke("lesson", *words, folder=tmp_path) for words in (*WRONG_WORDS, *WRONG_ANSWERS)]
    assert {(one.returncode, one.stderr.count("\n")) for one in said} == {(2, 1)}
    golden(*(one.stderr.strip() for one in said))


def test_an_invalid_progress_file_is_rejected_with_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "lesson-progress").mkdir()
    (tmp_path / "lesson-progress" / "progress.json").write_text("[]")
    said = invoke("lesson", "12", "--answer", "A", folder=tmp_path)
    assert (said.returncode, len(said.stderr.splitlines())) == (2, 1)


@pytest.mark.usefixtures("undrawn")
def test_predictions_are_explained_within_80_columns_and_on_the_page_and_saved(tmp_path: Path) -> None:
    said = invoke("lesson", "12", "--answer", "ABACB", "--html", "page.html", folder=tmp_path)
    assert said.returncode == 0
    assert [line for line in said.stdout.splitlines() if len(line) > WIDTH] == []
    assert re.findall(r"You said (\w)", said.stdout) == list("ABACB")
    page = (tmp_path / "page.html").read_text()
    assert re.findall(r"<h2>(\d.*)</h2>", page) == ["12. Detective"]
    assert "You said A; it is C" in page
    progress = LessonProgress(tmp_path / "lesson-progress")
    assert progress.completed["12_detective"].predicted == "ABACB"
    assert progress.next_of(STEPS) == STEPS[0]
    assert "you said ABACB, it was CBACB" in overview(STEPS, progress)


def test_a_step_that_cannot_run_on_this_machine_shows_the_committed_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden
) -> None:
    monkeypatch.setattr(measurement, "server_cpus", lambda: 1)
    monkeypatch.setattr(measurement, "is_python", lambda _: True)
    golden(invoke("lesson", "7", "--answer", "B", folder=tmp_path).stdout)


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
    assert measurement.missing_here(STEPS[6].questions[0])
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
    assert ended.returncode == 1
    assert why in ended.stdout
    assert "You said B" in ended.stdout
    assert LessonProgress(tmp_path / "lesson-progress").completed["07_python_today"].result == ""


def test_an_error_of_the_default_python_ends_the_step_with_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("under_siege.lesson.session.measure", not_begun)
    assert invoke("lesson", "1", "--answer", "B", folder=tmp_path).returncode == 2


def test_the_teaching_page_lists_the_usual_answers_and_its_minutes_add_up() -> None:
    text = (ROOT / "docs" / "teaching.md").read_text()
    for one in STEPS:
        usual = " ".join(page.usual for page in one.questions)
        assert re.search(rf"^\| {one.number} [^|]+\| {usual} \|", text, re.MULTILINE)
    sums = [sum(map(int, re.findall(r"^\| (\d+) \|", part, re.MULTILINE))) for part in text.split("\n## ")[1:4]]
    assert sums == [45, 90, 250]
    assert "".join(page.usual for one in STEPS for page in one.questions) in text


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
    assert first.figures[0].how
    assert second.figures[0].how == ""
    assert exercise.headline[0].text == "any"
