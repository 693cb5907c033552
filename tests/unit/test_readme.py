"""The README and docs/: documented output is up to date, and commands, files and links exist."""

import difflib
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command import invoke
from conftest import ROOT, SERVERS
from golden_file import texts_of
from source_code import script

from bench import bench

README = ROOT / "README.md"
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "suites").glob("*/README.md")),
]
MOST_WORDS = 800
LARGE_BYTES = 200_000  # of a compressed result
SLOW = pytest.mark.slow
BLOCK = re.compile(r"(<!-- python ((?:bench|scripts/measured_table)\.py [^\n]*?) -->\n```text\n)(.*?)```", re.DOTALL)
LINES = re.compile(r"<!-- lines of: python (bench\.py [^\n]*?) -->\n```text\n(.*?)```", re.DOTALL)
RENDERED = re.compile(r"(<!-- python (bench\.py report \S+ --format markdown) -->\n\n)(.*?)\n<!-- end -->", re.DOTALL)
PICTURE = re.compile(r"<!-- python (bench\.py report .*?) --out (\S+) -->\n!\[[^\]]+\]\((\S+)\)")
QUOTED = re.compile(r"<!-- (\S+\.(?:py|toml)) -->\n```(?:python|toml)\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
OF_THE_PROJECT = ("servers/", "common/", "docs/", "results/", "scripts/", "tests/", "./", ".venv")


def named(page: Path) -> str:
    """Return the name of a page; for pages of suites, add the name of their directory."""
    return page.stem if page.parent.parent != ROOT / "suites" else f"{page.parent.name}-{page.stem}"


def on_every_page(pattern: re.Pattern[str]) -> list:
    """Return test parameters for all matches on all pages: the page, and the groups of the match."""
    found = [(page, match.groups()) for page in PAGES for match in pattern.finditer(page.read_text())]
    words = [next(text for text in groups if text[0] != "<") for _, groups in found]
    return [
        pytest.param(page, *groups, id=f"{named(page)}-{command}", marks=SLOW if shows_much(command) else ())
        for (page, groups), command in zip(found, words, strict=True)
    ]


def shows_much(command: str) -> bool:
    """Return whether a command shows a large result, which takes a second."""
    files = [ROOT / word for word in command.split() if word.startswith("results/")]
    return any(path.stat().st_size > LARGE_BYTES for path in files)


@pytest.fixture
def printed_by(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Return a function that returns the output of a command in the root of the repository, if it does not fail."""
    monkeypatch.chdir(ROOT)

    def output(words: str) -> str:
        program, *arguments = shlex.split(words)
        if program != "bench.py":
            monkeypatch.setattr(sys, "argv", [program, *arguments])
            script(Path(program).stem).main()
            return capsys.readouterr().out
        ended = invoke(*arguments)
        assert ended.returncode != 2, ended.stderr
        return ended.stdout

    return output


@pytest.mark.parametrize(("page", "start", "words", "said"), on_every_page(BLOCK) + on_every_page(RENDERED))
def test_documented_output_matches_the_command(
    page: Path, start: str, words: str, said: str, renew: bool, printed_by: Callable[[str], str]
) -> None:
    printed = printed_by(words)
    if renew:
        page.write_text(page.read_text().replace(f"{start}{said}", f"{start}{printed}"))
    assert (printed if renew else said) == printed


@pytest.mark.parametrize(("page", "words", "said"), on_every_page(LINES))
def test_documented_lines_occur_in_the_output_in_the_same_order(
    page: Path, words: str, said: str, renew: bool, printed_by: Callable[[str], str]
) -> None:
    """With --renew, replace each line with the most similar line of the output."""
    printed, chosen = printed_by(words).splitlines(), said.splitlines()
    assert chosen
    if renew:
        chosen = [difflib.get_close_matches(line, printed, 1, cutoff=0)[0] for line in chosen]
        page.write_text(page.read_text().replace(said, "".join(f"{line}\n" for line in chosen)))
    rest = iter(printed)
    assert all(line in rest for line in chosen)


@pytest.mark.parametrize(("page", "words", "out", "shown"), on_every_page(PICTURE))
def test_documented_charts_are_up_to_date(
    page: Path, words: str, out: str, shown: str, renew: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    drawn = ROOT / out if renew else tmp_path / Path(out).name
    assert invoke(*shlex.split(words)[1:], "--out", str(drawn)).returncode == 0
    assert (page.parent / shown).resolve() == ROOT / out
    assert texts_of(ROOT / out) == texts_of(drawn)


@pytest.mark.parametrize(("page", "name", "said"), on_every_page(QUOTED))
def test_quoted_code_matches_the_file(page: Path, name: str, said: str) -> None:
    assert said in (ROOT / name).read_text()


def test_the_readme_starts_with_the_timeline() -> None:
    assert "timeline" in re.search(r"!\[[^\]]*\]\((.*?)\)", README.read_text())[1]
    assert README.read_text().index("![") < README.read_text().index("```")


def test_the_readme_shows_a_table_with_the_ceiling() -> None:
    blocks = [text for _, text in LINES.findall(README.read_text())]
    assert any("→ 1 " in text and "ceiling" in text for text in blocks)


def test_the_readme_has_at_most_800_words() -> None:
    assert len(README.read_text().split()) <= MOST_WORDS


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub creates for the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=named)
def test_every_link_to_a_file_or_heading_has_an_existing_target(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if "://" not in link:
            name, _, heading = link.partition("#")
            there = page.parent / name if name else page
            assert there.is_file(), link
            assert not heading or heading in anchors(there), link


def test_every_page_is_reachable_from_the_readme() -> None:
    linked = [README, *linked_from(README)]
    for page in linked:  # grows during the iteration
        linked += [one for one in linked_from(page) if one not in linked]
    assert set(linked) >= set(PAGES)


def linked_from(page: Path) -> set[Path]:
    """Return the pages linked from a page."""
    there = {(page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(page.read_text())}
    return there & set(PAGES)


def test_the_help_of_every_command_is_documented() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    assert {name for name in bench.commands if f"<!-- python bench.py {name} --help -->" not in text} == set()


def commands() -> list[list[str]]:
    return [
        shlex.split(line[2:])
        for page in PAGES
        for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)
        for line in block.splitlines()
    ]


def test_documented_options_and_files_exist() -> None:
    for words in commands():
        if words[:2] == ["python", "bench.py"]:
            told = invoke(words[2], "--help")
            assert told.returncode == 0
            for word in words[3:]:
                assert not word.startswith("--") or word in told.stdout, words
        for word in words:
            if word.startswith(OF_THE_PROJECT):
                assert (ROOT / word).exists(), words


def test_files_named_in_the_documentation_exist() -> None:
    for page in PAGES:
        for name in re.findall(r"`([\w./]+)`", page.read_text()):
            if name.startswith(OF_THE_PROJECT[:6]):
                assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_every_server_is_listed_in_docs_servers_md() -> None:
    for path in SERVERS:
        assert f"| `{path.name}` |" in (ROOT / "docs" / "servers.md").read_text()
