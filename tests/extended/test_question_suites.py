"""Run the quick version of each suite in suites/questions/: only servers that break on purpose fail."""

import itertools
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from command import invoke
from conftest import ROOT

from under_siege.host.limits import Limits, limited
from under_siege.record.record import CaseFailedError
from under_siege.record.result import load

SUITES = sorted(path.parent for path in (ROOT / "suites" / "questions").glob("*/suite.toml"))


def pythons_of(answer: dict[str, Any]) -> list[str]:
    """Return the Pythons that the measured commands name with --python."""
    commands = [shlex.split(measured["command"]) for measured in answer["measured"]]
    pairs = [pair for words in commands for pair in itertools.pairwise(words)]
    return list(dict.fromkeys(python for option, python in pairs if option == "--python"))


def skip_without_cgroups() -> None:
    try:
        with limited(Limits(0.5, 10**8)):
            pass
    except CaseFailedError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_only_servers_that_break_on_purpose_fail_in_a_question_suite(suite: Path, tmp_path: Path) -> None:
    answer = tomllib.loads((suite / "answer.toml").read_text())
    if "limits" in tomllib.loads((suite / "suite.toml").read_text()):
        skip_without_cgroups()
    breaks, pythons = answer.get("breaks", []), pythons_of(answer)
    if pythons and not any(map(shutil.which, pythons)):
        pytest.skip(f"{' and '.join(pythons)} not found on the PATH")
    options = [word for python in filter(shutil.which, pythons) for word in ("--python", python)]
    out = str(tmp_path / "result.json")
    load_options = ["--quick", "--rounds", "1", "--time", "500ms", "--users", "4"]
    ran = invoke("run", str(suite), *load_options, "--quiet", *options, "--out", out)
    assert ran.returncode in (0, 1, 3), ran.stderr  # 3: a server is suspect
    records = load(tmp_path / "result.json").records
    failures = {record.server: record.failure.message for record in records if record.failure}
    assert {server: why for server, why in failures.items() if server not in breaks} == {}
