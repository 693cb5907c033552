"""The GitHub and GitLab workflows of docs/ci.md: run their commands as documented."""

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
from command import invoke
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
    """Return a clone of a repository with a suite and this project in it, as on a CI runner."""
    work = tmp_path / "work"
    (work / "bench").mkdir(parents=True)
    (work / "bench" / "suite.toml").write_text(SUITE)
    shutil.copy(TESTS / "suites" / "shop" / "app.py", work / "bench")
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*identity, "commit", "-qm", "all"]):
        subprocess.run(["git", *words], cwd=work, check=True)
    subprocess.run(["git", "clone", "-q", work, tmp_path / "clone"], check=True)
    add_the_bench(tmp_path / "clone")
    return tmp_path / "clone"


def add_the_bench(folder: Path) -> None:
    """Create what the setup steps would create."""
    (folder / "under-siege").mkdir(parents=True)
    (folder / "under-siege" / ".venv").symlink_to(sys.prefix)
    (folder / "under-siege" / "bench.py").symlink_to(ROOT / "bench.py")


COMPARE = ("compare", "base.json", "new.json", "--format", "markdown")


def add_recorded_bench(folder: Path) -> None:
    """Replace the project's Python by a script that prints a recorded comparison for exactly this command."""
    recorded = invoke(*COMPARE, folder=folder)
    (folder / "recorded.md").write_text(recorded.stdout)
    python = folder / "under-siege" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    words = f"under-siege/bench.py {' '.join(COMPARE)}"
    python.write_text(f'#!/bin/sh\n[ "$*" = "{words}" ] || exit 99\ncat recorded.md; exit {recorded.returncode}\n')
    python.chmod(0o755)


def run_in(folder: Path, script: str, variables: dict[str, object]) -> subprocess.CompletedProcess[str]:
    """Run a script with bash that stops at the first failing command, as CI runners do."""
    env = {**os.environ, **{name: str(value) for name, value in variables.items()}, "ROUNDS": "1"}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=folder, env=env, capture_output=True, text=True
    )


def run_github_steps(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    here = {"GITHUB_BASE_REF": "main", "GITHUB_STEP_SUMMARY": folder / "summary.md"}
    return run_in(folder, "\n".join(STEPS[name] for name in names), JOB["env"] | here)


COMPARING = OTHER_JOB["script"][OTHER_JOB["script"].index("code=0") :]


def run_gitlab_lines(folder: Path, lines: list[str], **variables: object) -> subprocess.CompletedProcess[str]:
    here = {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}
    return run_in(folder, "\n".join(lines), OTHER_JOB["variables"] | here | variables)


def test_all_commands_run_in_order(clone: Path) -> None:
    measured = run_github_steps(clone, "Measure the base", "Measure what is proposed")
    assert measured.returncode == 0, measured.stderr
    for name in ("base", "new"):
        assert {record.server for record in load(clone / f"{name}.json").records} == {"plain"}
    compared = run_github_steps(clone, "Compare")
    assert (compared.returncode, compared.stdout.partition(" ")[0]) == (0, "::warning")  # one round decides nothing
    assert (clone / "summary.md").read_text() == (clone / "comparison.md").read_text()
    assert "`rate >= 0.1 of base` | " in (clone / "summary.md").read_text()
    uploaded = next(step for step in JOB["steps"] if "upload-artifact" in step.get("uses", ""))["with"]["path"].split()
    assert [name for name in uploaded if not (clone / name).is_file()] == []

    gitlab_folder = clone.parent / "gitlab_folder"
    subprocess.run(["git", "clone", "-q", clone.parent / "work", gitlab_folder], check=True)
    add_the_bench(gitlab_folder)
    check_gitlab_commands_in_order(gitlab_folder, clone)


def check_gitlab_commands_in_order(clone: Path, measured: Path) -> None:
    """Reuse the results of the GitHub steps, because the measuring commands are identical."""
    script = OTHER_JOB["script"]
    measuring = [line for line in script if line.startswith("$BENCH run")]
    assert measuring == [STEPS[name].splitlines()[-1] for name in ("Measure the base", "Measure what is proposed")]
    assert [OTHER_JOB["variables"][name] for name in ("BENCH", "SUITE")] == [JOB["env"][n] for n in ("BENCH", "SUITE")]
    before_measuring = run_gitlab_lines(clone, script[: script.index(measuring[0])])
    assert before_measuring.returncode == 0, before_measuring.stderr
    assert (clone / "base" / OTHER_JOB["variables"]["SUITE"]).is_file()
    for name in ("base.json", "new.json", "page.html"):
        shutil.copy(measured / name, clone)
    shutil.rmtree(clone / "under-siege")
    add_recorded_bench(clone)  # the GitHub steps have tested the real one
    ran = run_gitlab_lines(clone, script[script.index(measuring[-1]) + 1 :])
    assert ran.returncode == 3, ran.stderr
    assert "`rate >= 0.1 of base` | " in (clone / "comparison.md").read_text()
    assert [name for name in OTHER_JOB["artifacts"]["paths"] if not (clone / name).is_file()] == []


def test_a_base_without_the_suite_fails(clone: Path) -> None:
    (clone / "bench" / "suite.toml").rename(clone / "bench" / "other.toml")
    ran = run_github_steps(clone, "Measure what is proposed")
    assert ran.returncode == 2
    assert "can't be read" in ran.stderr


NEW = {
    0: lambda: a_result(("1_a", 1, 1.0), seed=2),
    1: lambda: a_result(("1_a", 1, 0.5), seed=2),
}  # test_all_commands_run_in_order covers exit code 3, from a single round


@pytest.fixture(params=NEW)
def compared(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, int]:
    """Return a folder with two results and the expected exit code of their comparison."""
    save(a_result(("1_a", 1, 1.0)), tmp_path / "base.json")
    save(NEW[request.param](), tmp_path / "new.json")
    add_recorded_bench(tmp_path)
    return tmp_path, request.param


def test_github_fails_on_exit_code_1(compared: tuple[Path, int]) -> None:
    folder, code = compared
    ran = run_github_steps(folder, "Compare")
    assert ran.returncode == code, ran.stderr
    assert ran.stdout.partition(" ")[0] == {0: "", 1: "::error"}[code]
    assert "| 1_a |" in (folder / "summary.md").read_text()


def test_gitlab_fails_on_exit_code_1_and_allows_3(compared: tuple[Path, int]) -> None:
    folder, code = compared
    assert run_gitlab_lines(folder, COMPARING).returncode == code
    assert OTHER_JOB["allow_failure"] == {"exit_codes": 3}
    assert "| 1_a |" in (folder / "comparison.md").read_text()


@pytest.fixture
def notes() -> Iterator[tuple[str, list[tuple[str, str | None, bytes]]]]:
    """Start a fake GitLab API; return its address and the requests it received."""
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


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_gitlab_posts_a_note_with_a_token(tmp_path: Path, notes) -> None:
    address, sent = notes
    for name, quality in (("base", 1.0), ("new", 0.5)):
        result = a_result(("1_a", 1, quality))
        result.requirements.append(Required("rate >= 0.97 of base"))
        save(result, tmp_path / f"{name}.json")
    add_recorded_bench(tmp_path)
    here = {"BENCH_TOKEN": "s3", "CI_API_V4_URL": address, "CI_PROJECT_ID": 7, "CI_MERGE_REQUEST_IID": 8}
    assert run_gitlab_lines(tmp_path, COMPARING, **here).returncode == 1
    ((path, token, body),) = sent
    assert (path, token) == ("/api/v4/projects/7/merge_requests/8/notes", "s3")
    (note,) = urllib.parse.parse_qs(body.decode())["body"]
    assert note.strip() == (tmp_path / "comparison.md").read_text().strip()
    assert "**missed**" in note


def test_all_other_steps_only_set_up() -> None:
    assert set(STEPS) == {"Set up", "Measure the base", "Measure what is proposed", "Compare"}
    assert [line.split()[0] for line in OTHER_JOB["before_script"]] == ["git", "under-siege/scripts/setup"]
    assert STEPS["Set up"].split()[-1] == "under-siege/scripts/setup"
    assert (ROOT / "scripts" / "setup").is_file()
