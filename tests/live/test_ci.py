"""Run the commands of the GitHub and GitLab workflows in docs/ci.md as documented."""

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

from under_siege.record.result import Required, load, save

PAGE = (ROOT / "docs" / "ci.md").read_text()
GITHUB, GITLAB = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
MARKDOWN = ("--format", "markdown")
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
    """Create the files that the setup steps would create."""
    (folder / "under-siege").mkdir(parents=True)
    (folder / "under-siege" / ".venv").symlink_to(sys.prefix)
    (folder / "under-siege" / "bench.py").symlink_to(ROOT / "bench.py")


def add_recorded_bench(folder: Path, code: int) -> None:
    """Replace the project's Python with a script that prints a recorded comparison."""
    for name, quality in (("old", 1.0), ("new", 0.5)):
        result = a_result(("1_a", 1, quality))
        result.requirements.append(Required("rate >= 0.97 of base"))
        save(result, folder / f"{name}.json")
    (folder / "recorded.md").write_text(invoke("compare", "old.json", "new.json", *MARKDOWN, folder=folder).stdout)
    python = folder / "under-siege" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    report = f"under-siege/bench.py report comparison.json {' '.join(MARKDOWN)}"
    python.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *" run "*" --against "*) touch comparison.json page.html; exit {code} ;; esac\n'
        f'[ "$*" = "{report}" ] || exit 99\n'
        "cat recorded.md\n"
    )
    python.chmod(0o755)


def run_in(folder: Path, script: str, variables: dict[str, object]) -> subprocess.CompletedProcess[str]:
    """Run a script with bash, stopping at the first failing command as CI runners do."""
    env = {**os.environ, **{name: str(value) for name, value in variables.items()}, "ROUNDS": "1"}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=folder, env=env, capture_output=True, text=True
    )


def run_github(folder: Path) -> subprocess.CompletedProcess[str]:
    here = {"GITHUB_BASE_REF": "main", "GITHUB_STEP_SUMMARY": folder / "summary.md"}
    return run_in(folder, STEPS["Compare"], JOB["env"] | here)


def run_gitlab(folder: Path, *, has_origin: bool = True, **variables: object) -> subprocess.CompletedProcess[str]:
    here = {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}
    lines = OTHER_JOB["script"][0 if has_origin else 1 :]  # the first line fetches
    return run_in(folder, "\n".join(lines), OTHER_JOB["variables"] | here | variables)


def test_all_commands_of_the_github_and_gitlab_jobs_run_in_order(clone: Path) -> None:
    compared = run_github(clone)
    assert compared.returncode == 0, compared.stderr
    assert compared.stdout.splitlines()[-1].startswith("::warning")  # one round is too few for a decision
    records = load(clone / "comparison.json").records
    assert [record.server for record in records] == ["plain", "plain"]
    assert {str(record.values["revision"]).partition(" (")[0] for record in records} == {"origin/main", "work tree"}
    check_files(clone, next(step for step in JOB["steps"] if "upload-artifact" in step.get("uses", ""))["with"]["path"])
    assert (clone / "summary.md").read_text() == (clone / "comparison.md").read_text()

    gitlab = clone.parent / "gitlab"
    subprocess.run(["git", "clone", "-q", clone.parent / "work", gitlab], check=True)
    add_the_bench(gitlab)
    assert run_gitlab(gitlab).returncode == 3
    check_files(gitlab, "\n".join(OTHER_JOB["artifacts"]["paths"]))


def check_files(folder: Path, names: str) -> None:
    assert [name for name in names.split() if not (folder / name).is_file()] == []
    assert "| rate &gt;= 0.1 of base | " in (folder / "comparison.md").read_text()
    assert "What changed" in (folder / "page.html").read_text()


def test_a_base_revision_without_the_suite_directory_fails_the_job(clone: Path) -> None:
    (clone / "bench").rename(clone / "perf")
    subprocess.run(["git", "add", "."], cwd=clone, check=True)
    ran = run_in(clone, STEPS["Compare"], JOB["env"] | {"GITHUB_BASE_REF": "main", "SUITE": "perf/suite.toml"})
    assert ran.returncode == 2
    assert "that revision has no directory 'perf'" in ran.stderr


@pytest.mark.parametrize("code", [0, 1])
def test_the_ci_jobs_pass_with_exit_code_0_and_fail_with_exit_code_1(code: int, tmp_path: Path) -> None:
    add_recorded_bench(tmp_path, code)
    github, gitlab = run_github(tmp_path), run_gitlab(tmp_path, has_origin=False)
    assert (github.returncode, gitlab.returncode) == (code, code), github.stderr + gitlab.stderr
    assert github.stdout.partition(" ")[0] == {0: "", 1: "::error"}[code]
    assert OTHER_JOB["allow_failure"] == {"exit_codes": 3}
    assert "| 1_a |" in (tmp_path / "summary.md").read_text()


@pytest.fixture
def notes() -> Iterator[tuple[str, list[tuple[str, str | None, bytes]]]]:
    """Start a fake GitLab API; yield its address and the list of requests that it receives."""
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
def test_the_gitlab_job_posts_the_comparison_to_the_merge_request_with_a_token(tmp_path: Path, notes) -> None:
    address, sent = notes
    add_recorded_bench(tmp_path, 1)
    here = {"BENCH_TOKEN": "s3", "CI_API_V4_URL": address, "CI_PROJECT_ID": 7, "CI_MERGE_REQUEST_IID": 8}
    assert run_gitlab(tmp_path, has_origin=False, **here).returncode == 1
    ((path, token, body),) = sent
    assert (path, token) == ("/api/v4/projects/7/merge_requests/8/notes", "s3")
    (note,) = urllib.parse.parse_qs(body.decode())["body"]
    assert note.strip() == (tmp_path / "comparison.md").read_text().strip()
    assert "**missed**" in note


def test_all_workflow_steps_except_the_comparison_only_set_up_the_project() -> None:
    assert set(STEPS) == {"Set up", "Compare"}
    assert [line.split()[0] for line in OTHER_JOB["before_script"]] == ["git", "under-siege/scripts/setup"]
    assert STEPS["Set up"].split()[-1] == "under-siege/scripts/setup"
    assert (ROOT / "scripts" / "setup").is_file()
