"""docs/ci.md: the two files are what they are said to be, and their commands are run as they stand there."""

import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from command import called
from conftest import ROOT, TESTS
from simulated_results import a_result

from under_siege.model.record import load, save
from under_siege.model.threshold import Required

PAGE = (ROOT / "docs" / "ci.md").read_text()
GITHUB, GITLAB = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
JOB, OTHER_JOB = GITHUB["jobs"]["compare"], GITLAB["performance"]
STEPS = {step["name"]: step["run"] for step in JOB["steps"] if "run" in step}
SUITE = """\
[load]
path = "/report"
users = [2]
time = "1s"
[ping]
path = "/health"
[require]
all = ["availability >= 50%", "rate >= 0.1 of base"]
[servers.plain]
command = "python app.py {port} plain"
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a repository with a suite, as a runner has it, and this project beside it."""
    work = tmp_path / "work"
    (work / "bench").mkdir(parents=True)
    (work / "bench" / "suite.toml").write_text(SUITE)
    shutil.copy(TESTS / "suites" / "shop" / "app.py", work / "bench")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-qm", "all"]):
        subprocess.run(["git", *words], cwd=work, check=True)
    subprocess.run(["git", "clone", "-q", work, tmp_path / "clone"], check=True)
    add_the_bench(tmp_path / "clone")
    return tmp_path / "clone"


def add_the_bench(folder: Path) -> None:
    """What the steps that set up would have made."""
    (folder / "under-siege").mkdir(parents=True)
    (folder / "under-siege" / ".venv").symlink_to(sys.prefix)
    (folder / "under-siege" / "bench.py").symlink_to(ROOT / "bench.py")


COMPARE = ("compare", "base.json", "new.json", "--format", "markdown")


def add_what_the_bench_says(folder: Path) -> None:
    """In place of a Python one that has compared these results before, and says that to these words and no others."""
    said = called(*COMPARE, folder=folder)
    (folder / "said.md").write_text(said.stdout)
    python = folder / "under-siege" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    words = f"under-siege/bench.py {' '.join(COMPARE)}"
    python.write_text(f'#!/bin/sh\n[ "$*" = "{words}" ] || exit 99\ncat said.md; exit {said.returncode}\n')
    python.chmod(0o755)


def run_in(folder: Path, script: str, variables: dict[str, object]) -> subprocess.CompletedProcess[str]:
    """As a runner does: by bash, which stops at the first command that fails."""
    env = {**os.environ, **{name: str(value) for name, value in variables.items()}, "ROUNDS": "1"}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=folder, env=env, capture_output=True, text=True
    )


def of_github(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    here = {"GITHUB_BASE_REF": "main", "GITHUB_STEP_SUMMARY": folder / "summary.md"}
    return run_in(folder, "\n".join(STEPS[name] for name in names), JOB["env"] | here)


COMPARING = OTHER_JOB["script"][OTHER_JOB["script"].index("code=0") :]


def of_gitlab(folder: Path, lines: list[str], **variables: object) -> subprocess.CompletedProcess[str]:
    here = {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}
    return run_in(folder, "\n".join(lines), OTHER_JOB["variables"] | here | variables)


def test_all_commands_in_their_order(clone: Path) -> None:
    measured = of_github(clone, "Measure the base", "Measure what is proposed")
    assert measured.returncode == 0, measured.stderr
    for name in ("base", "new"):
        assert {record.server for record in load(clone / f"{name}.json").records} == {"plain"}
    compared = of_github(clone, "Compare")
    assert (compared.returncode, compared.stdout.partition(" ")[0]) == (0, "::warning")  # one round decides nothing
    assert (clone / "summary.md").read_text() == (clone / "comparison.md").read_text()
    assert "`rate >= 0.1 of base` | " in (clone / "summary.md").read_text()
    uploaded = next(step for step in JOB["steps"] if "upload-artifact" in step.get("uses", ""))["with"]["path"].split()
    assert [name for name in uploaded if not (clone / name).is_file()] == []

    gitlabs = clone.parent / "gitlabs"
    subprocess.run(["git", "clone", "-q", clone.parent / "work", gitlabs], check=True)
    add_the_bench(gitlabs)
    check_all_commands_of_gitlab_in_their_order(gitlabs, clone)


def check_all_commands_of_gitlab_in_their_order(clone: Path, measured: Path) -> None:
    """Those that measure are GitHub's, letter by letter, and were run just now; what they gave is taken over."""
    script = OTHER_JOB["script"]
    measuring = [line for line in script if line.startswith("$BENCH run")]
    assert measuring == [STEPS[name].splitlines()[-1] for name in ("Measure the base", "Measure what is proposed")]
    assert [OTHER_JOB["variables"][name] for name in ("BENCH", "SUITE")] == [JOB["env"][n] for n in ("BENCH", "SUITE")]
    begun = of_gitlab(clone, script[: script.index(measuring[0])])
    assert begun.returncode == 0, begun.stderr
    assert (clone / "base" / OTHER_JOB["variables"]["SUITE"]).is_file()
    for name in ("base.json", "new.json", "page.html"):
        shutil.copy(measured / name, clone)
    shutil.rmtree(clone / "under-siege")
    add_what_the_bench_says(clone)  # that it says so itself: GitHub's, above
    ended = of_gitlab(clone, script[script.index(measuring[-1]) + 1 :])
    assert ended.returncode == 3, ended.stderr
    assert "`rate >= 0.1 of base` | " in (clone / "comparison.md").read_text()
    assert [name for name in OTHER_JOB["artifacts"]["paths"] if not (clone / name).is_file()] == []


def test_a_base_without_the_suite_ends_it(clone: Path) -> None:
    (clone / "bench" / "suite.toml").rename(clone / "bench" / "other.toml")
    ended = of_github(clone, "Measure what is proposed")
    assert ended.returncode == 2
    assert "can't be read" in ended.stderr


NEW = {
    0: lambda: a_result(("1_a", 1, 1.0), seed=2),
    1: lambda: a_result(("1_a", 1, 0.5), seed=2),
}  # 3 comes of one round, above


@pytest.fixture(params=NEW)
def compared(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, int]:
    """A folder with two results, and the exit code that they are worth."""
    save(a_result(("1_a", 1, 1.0)), tmp_path / "base.json")
    save(NEW[request.param](), tmp_path / "new.json")
    add_what_the_bench_says(tmp_path)
    return tmp_path, request.param


def test_github_fails_on_1(compared: tuple[Path, int]) -> None:
    folder, code = compared
    ended = of_github(folder, "Compare")
    assert ended.returncode == code, ended.stderr
    assert ended.stdout.partition(" ")[0] == {0: "", 1: "::error"}[code]
    assert "| 1_a |" in (folder / "summary.md").read_text()


def test_gitlab_fails_on_1_and_would_warn_on_3(compared: tuple[Path, int]) -> None:
    folder, code = compared
    assert of_gitlab(folder, COMPARING).returncode == code
    assert OTHER_JOB["allow_failure"] == {"exit_codes": 3}
    assert "| 1_a |" in (folder / "comparison.md").read_text()


@pytest.fixture
def notes() -> Iterator[tuple[str, list[tuple[str, str | None, bytes]]]]:
    """Where an API is that takes notes, and what it was sent."""
    sent = []

    class Api(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sent.append((self.path, self.headers["PRIVATE-TOKEN"], body))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/api/v4", sent
        server.shutdown()
        thread.join()


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl here")
def test_with_a_token_gitlab_has_a_note(tmp_path: Path, notes) -> None:
    address, sent = notes
    for name, quality in (("base", 1.0), ("new", 0.5)):
        result = a_result(("1_a", 1, quality))
        result.requirements.append(Required("rate >= 0.97 of base"))
        save(result, tmp_path / f"{name}.json")
    add_what_the_bench_says(tmp_path)
    here = {"BENCH_TOKEN": "s3", "CI_API_V4_URL": address, "CI_PROJECT_ID": 7, "CI_MERGE_REQUEST_IID": 8}
    assert of_gitlab(tmp_path, COMPARING, **here).returncode == 1
    ((path, token, body),) = sent
    assert (path, token) == ("/api/v4/projects/7/merge_requests/8/notes", "s3")
    (told,) = urllib.parse.parse_qs(body.decode())["body"]
    assert told.strip() == (tmp_path / "comparison.md").read_text().strip()
    assert "**missed**" in told


def test_what_is_not_run_here_only_sets_up() -> None:
    assert set(STEPS) == {"Set up", "Measure the base", "Measure what is proposed", "Compare"}
    assert [line.split()[0] for line in OTHER_JOB["before_script"]] == ["git", "under-siege/scripts/setup"]
    assert STEPS["Set up"].split()[-1] == "under-siege/scripts/setup"
    assert (ROOT / "scripts" / "setup").is_file()
