"""Commands that are rejected after a process has run, and what a broken server prints."""

import json
import unicodedata
from pathlib import Path

from bench_runs import QUICK, without_a_ceiling
from command import invoke
from conftest import TESTS, WAITING
from repositories import commit_all

SUITE = '{}[servers.one]\ncommand = "serve --port {{port}}"\n'


def hidden(text: str) -> set[str]:
    """Return the control and format characters of a text, except line ends."""
    return {one for one in text if unicodedata.category(one) in ("Cc", "Cf") and one != "\n"}


def test_an_invalid_base_revision_or_tool_causes_a_one_line_error(tmp_path: Path, golden) -> None:
    """The suite was committed and then changed."""
    (tmp_path / "suite.toml").write_text(SUITE.format("title = 'x'\n"))
    (tmp_path / "open.toml").write_text(SUITE.format('[load]\ntool = "open"\n'))
    commit_all(tmp_path)
    (tmp_path / "suite.toml").write_text(SUITE.format(""))
    revisions = {"no-such-branch": "suite.toml", "--help": "suite.toml", ".": "suite.toml", "HEAD": "2"}
    ended = [invoke("run", target, f"--against={base}", folder=tmp_path) for base, target in revisions.items()]
    ended.append(invoke("run", "open.toml", folder=tmp_path))
    assert {(one.returncode, one.stderr.count("\n")) for one in ended} == {(2, 1)}
    golden(*(one.stderr.strip().replace(str(tmp_path), "") for one in ended))


def test_a_run_shows_no_invisible_characters_of_a_server(tmp_path: Path) -> None:
    server = (TESTS / "servers" / "crashes_at_startup.py").read_text()
    path = tmp_path / "dies\u202e\x1b[31m.py"
    path.write_text(server.replace("no database", "\\x1b]0;no\\x07 \\u202edatabase"))
    with without_a_ceiling():
        ran = invoke("run", f"./{path.name}", *QUICK, *WAITING, "--out", "r.json", folder=tmp_path)
    assert ran.returncode == 1
    assert "database" in ran.stdout
    saved = json.loads((tmp_path / "r.json").read_text())
    assert hidden(ran.stdout + ran.stderr + json.dumps(saved, ensure_ascii=False)) == set()


def test_an_unknown_task_of_try_causes_an_error_without_invisible_characters(tmp_path: Path) -> None:
    ran = invoke("try", "\x1b\u202e:f", folder=tmp_path)
    assert ran.returncode == 2
    assert hidden(ran.stdout + ran.stderr) == set()
