"""The pages in docs/questions/ have the required structure, and results support the numbers in their short answers."""

import re
from functools import cache
from typing import Any

import msgspec
import pytest
import yaml
from conftest import ROOT
from source_code import script

from under_siege.lesson.claims import HOLDS, ClaimValue, ResultView, decide, exact
from under_siege.lesson.step import Claim
from under_siege.record.result import load
from under_siege.show.html_page import Explained

DOCS, SUITES = ROOT / "docs" / "questions", ROOT / "suites" / "questions"
PAGES = sorted(DOCS.glob("[0-9]*.md"))
SECTIONS = ["Short answer", "Do this", "Why", "Measured", "Run it yourself", "When this is wrong", "Related"]
NAMES = [page.stem for page in PAGES]
CODE, SLOT, NUMBER = re.compile(r"`[^`]+`"), re.compile(r"{\w+}"), re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*")
MOST_LINES, MOST_WORDS, WIDTH = 40, 150, 120


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A committed result, the command that produced it, and claims that the result must support."""

    result: str
    command: str
    claims: tuple[Claim, ...]


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A short answer, with a slot for each claim."""

    answer: str
    measured: tuple[Measured, ...]
    given: tuple[str, ...] = ()  # numbers that are not measured, such as limits of a library
    breaks: tuple[str, ...] = ()  # servers that fail on purpose

    def text(self) -> str:
        """Return the answer with the sentences of its claims; fail if a claim does not hold."""
        sentences = {}
        for measured in self.measured:
            for claim in measured.claims:
                decided = decide(claim, view_of(measured.result))
                assert decided.outcome == HOLDS, f"{decided.sentence} {decided.reason} {decided.possible}"
                sentences[claim.name] = " ".join(decided.sentence.split())
        return " ".join(self.answer.format_map(sentences).split())


class TableView:
    """The figures of a table that a script measured, in the form that claims use."""

    cpus = 2

    def __init__(self, rows: dict[str, dict[str, Any]]) -> None:
        self._rows = rows

    def figure(self, metric: str, case: str) -> ClaimValue:
        cell = self._rows[case][metric]
        return exact(cell.value, cell.text)

    def base(self, metric: str, base: str, _case: str) -> ClaimValue:
        return self.figure(metric, base)


@cache
def view_of(result: str) -> Any:
    try:
        return TableView(script("measured_table").load(ROOT / result).rows)
    except msgspec.DecodeError:  # a compressed result, not a table
        return ResultView(load(ROOT / result))


def answer_of(name: str) -> Answer:
    return msgspec.toml.decode((SUITES / name / "answer.toml").read_bytes(), type=Answer)


def sections(name: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)\n", (DOCS / f"{name}.md").read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def wrapped(text: str) -> str:
    """Wrap the text at spaces outside code."""
    lines, line = [], ""
    for word in re.findall(r"(?:`[^`]*`|\S)+", text):
        if line and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


def test_every_question_has_a_page_and_a_suite() -> None:
    assert sorted(path.name for path in SUITES.iterdir() if path.is_dir()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_page_has_the_required_sections(name: str) -> None:
    assert list(sections(name)) == SECTIONS
    assert (DOCS / f"{name}.md").read_text().startswith("# ")
    assert len(sections(name)["Why"].split()) <= MOST_WORDS


@pytest.mark.parametrize("name", NAMES)
def test_the_code_to_copy_is_short_and_taken_from_the_suite(name: str) -> None:
    quoted = re.findall(r"<!-- (\S+) -->\n```\w+\n(.*?)```", sections(name)["Do this"], re.DOTALL)
    assert quoted
    for path, code in quoted:
        assert path.startswith(f"suites/questions/{name}/")
        assert len(code.splitlines()) <= MOST_LINES
        assert code.strip() in (ROOT / path).read_text()


@pytest.mark.parametrize("name", NAMES)
def test_the_short_answer_matches_the_results(name: str, renew: bool) -> None:
    page, text = DOCS / f"{name}.md", wrapped(answer_of(name).text())
    if renew:
        before = sections(name)["Short answer"]
        page.write_text(page.read_text().replace(f"## Short answer\n{before}", f"## Short answer\n\n{text}\n\n"))
    assert sections(name)["Short answer"].strip() == text
    assert NUMBER.search(text)


@pytest.mark.parametrize("name", NAMES)
def test_every_number_in_a_short_answer_is_measured_or_listed_as_given(name: str) -> None:
    answer = answer_of(name)
    claims = [claim for measured in answer.measured for claim in measured.claims]
    written = SLOT.sub("", CODE.sub("", " ".join([answer.answer, *(claim.says for claim in claims)])))
    assert set(NUMBER.findall(written)) <= set(answer.given)
    assert set(SLOT.findall(answer.answer)) == {f"{{{claim.name}}}" for claim in claims if claim.says}


@pytest.mark.parametrize("name", NAMES)
def test_the_documented_command_produced_one_of_the_results(name: str) -> None:
    commands = [measured.command for measured in answer_of(name).measured]
    shown = re.search(r"```console\n\$ python (?:bench\.py )?(.*)\n```", sections(name)["Run it yourself"])[1]
    assert any(command.startswith(shown) for command in commands)


@pytest.mark.parametrize("name", ["24-workers-and-quota", "25-throttling"])
def test_a_deployment_takes_the_number_of_workers_or_threads_from_its_cpu_limit(name: str) -> None:
    deployment = yaml.safe_load((SUITES / name / "deployment.yaml").read_text())
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert {each["valueFrom"]["resourceFieldRef"]["resource"] for each in container["env"]} == {"limits.cpu"}
    assert "cpu" in container["resources"]["limits"]


def test_the_index_links_to_every_page() -> None:
    assert set(re.findall(r"\((\d\d-[\w-]+)\.md\)", (DOCS / "index.md").read_text())) == set(NAMES)


def test_result_pages_name_the_documentation_without_a_link_to_another_site() -> None:
    page = "docs/questions/02-process-pool.md"
    assert Explained().text(f"Use processes ({page}).").endswith(f"({page}).")


def test_the_pages_that_profile_recommends_exist() -> None:
    advice = (ROOT / "under_siege" / "profile" / "view.py").read_text()
    pages = re.findall(r"docs/questions/[\w-]+\.md", advice)
    assert len(pages) >= 4
    assert [page for page in pages if not (ROOT / page).is_file()] == []
