"""The README: its table is that of the committed result, its commands and files exist."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, SERVERS, bench_command

README = ROOT / "README.md"
BLOCK = re.compile(r"<!-- python (bench\.py [^\n]*?) -->\n```text\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("words", [words for words, _ in BLOCK.findall(README.read_text())])
def test_what_a_command_is_said_to_print_is_what_it_prints(words: str, renew: bool) -> None:
    printed = subprocess.run(bench_command(*shlex.split(words)[1:]), cwd=ROOT, capture_output=True, text=True).stdout
    if renew:
        block = f"<!-- python {words} -->\n```text\n{printed}```"
        README.write_text(
            re.sub(
                rf"<!-- python {re.escape(words)} -->\n```text\n.*?```",
                lambda _: block,
                README.read_text(),
                flags=re.DOTALL,
            )
        )
    assert dict(BLOCK.findall(README.read_text()))[words] == printed


PICTURE = re.compile(r"<!-- python (bench\.py report .*?) --out (\S+) -->\n!\[[^\]]+\]\((\S+)\)")


@pytest.mark.parametrize(("words", "out", "shown"), PICTURE.findall(README.read_text()))
def test_a_picture_is_what_its_command_draws(words: str, out: str, shown: str, renew: bool, tmp_path: Path) -> None:
    drawn = ROOT / out if renew else tmp_path / Path(out).name
    subprocess.run(bench_command(*shlex.split(words)[1:], "--out", str(drawn)), cwd=ROOT, check=True)
    assert out == shown
    assert what_is_drawn(ROOT / out) == what_is_drawn(drawn)


def what_is_drawn(path: Path) -> list[str]:
    """All texts and the shapes of all marks; where they are placed may differ by the width of a font."""
    return re.findall(r">([^<]+)</text>|<path d=\"([^\"]+)\" fill", path.read_text())


def test_the_first_thing_that_is_seen_is_the_timeline() -> None:
    assert "timeline" in re.search(r"!\[[^\]]*\]\((.*?)\)", README.read_text())[1]
    assert README.read_text().index("![") < README.read_text().index("```")


def test_there_is_a_table() -> None:
    blocks = [text for _, text in BLOCK.findall(README.read_text())]
    assert any(all(path.stem in text for path in SERVERS) for text in blocks)


def commands() -> list[list[str]]:
    found = re.findall(r"```console\n(.*?)```", README.read_text(), re.DOTALL)
    return [shlex.split(line[2:]) for block in found for line in block.splitlines()]


def test_every_option_of_a_command_exists_and_every_file_is_there() -> None:
    helps: dict[str, str] = {}
    for words in commands():
        if words[:2] == ["python", "bench.py"]:
            name = words[2]
            helps[name] = (
                helps.get(name)
                or subprocess.run(bench_command(name, "--help"), capture_output=True, text=True, check=True).stdout
            )
            for word in words[3:]:
                assert not word.startswith("--") or word in helps[name], words
        for word in words:
            if word.startswith(("servers/", "./", "results/", ".venv")):
                assert (ROOT / word).exists(), words


def test_every_server_is_explained() -> None:
    for path in SERVERS:
        assert f"| `{path.name}` |" in README.read_text()
