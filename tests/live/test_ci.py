"""Run the commands of the GitHub and GitLab workflows in docs/ci.md as documented."""

import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest
import yaml
from command import invoke
from conftest import ROOT, SUPPORT
from repositories import commit_all, git
from scripted_server import running

from under_siege.record.result import load

PAGE = (ROOT / "docs" / "ci.md").read_text()
TEXTS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
GITHUB, GITLAB = map(yaml.safe_load, TEXTS)
ACTIONLINT = shutil.which("actionlint", path=Path(sys.executable).parent)
JOB, OTHER_JOB = GITHUB["jobs"]["compare"], GITLAB["performance"]
STEPS = {step["name"]: step["run"] for step in JOB["steps"] if "run" in step}
SUITE = """\
[load]
path = "/slow/0.05"
users = [2]
time = "0.5s"
[ping]
path = "/ping"
ready_within = "60s"
[require]
all = ["availability >= 50%", "rate >= 0.1 of base"]
[servers.scripted]
command = "python scripted_server.py {port}"
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a clone of a repository with a suite, as on a CI runner."""
    work = tmp_path / "work"
    (work / "bench").mkdir(parents=True)
    (work / "bench" / "suite.toml").write_text(SUITE)
    shutil.copy(SUPPORT / "scripted_server.py", work / "bench")
    commit_all(work)
    git(tmp_path, "clone", "-q", work, "clone")
    return tmp_path / "clone"


RECORDED = "| 1_a | rate &gt;= 0.97 of base | **missed** |"


def add_recorded_bench(folder: Path, code: int) -> None:
    """Replace the project's Python with a script that ends with this code and prints a recorded comparison."""
    python = folder / "under-siege" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        "#!/bin/sh\n"
        f'[ "$2 $3 $4" = "run bench/suite.toml --against" ] && git rev-parse --quiet --verify "$5" && exit {code}\n'
        f'[ "$*" = "under-siege/bench.py report comparison.json --format markdown" ] && echo "{RECORDED}"\n'
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


def run_gitlab(folder: Path, **variables: object) -> subprocess.CompletedProcess[str]:
    here = {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}
    return run_in(folder, "\n".join(OTHER_JOB["script"]), OTHER_JOB["variables"] | here | variables)


def test_the_commands_of_the_github_job_create_its_files(clone: Path) -> None:
    (clone / "under-siege").mkdir()  # and the files that the setup steps would create
    (clone / "under-siege" / ".venv").symlink_to(sys.prefix)
    (clone / "under-siege" / "bench.py").symlink_to(ROOT / "bench.py")
    compared = run_github(clone)
    records = load(clone / "comparison.json").records
    assert [(record.server, record.failure) for record in records] == [("scripted", None)] * 2, compared.stderr
    assert {str(record.values["revision"]).partition(" (")[0] for record in records} == {"origin/main", "work tree"}
    names = next(step for step in JOB["steps"] if "upload-artifact" in step.get("uses", ""))["with"]["path"].split()
    assert [name for name in names if not (clone / name).is_file()] == []
    assert "| rate &gt;= 0.1 of base | " in (clone / "comparison.md").read_text()
    assert (clone / "summary.md").read_text() == (clone / "comparison.md").read_text()


def test_the_gitlab_job_runs_the_same_commands_and_keeps_the_same_files() -> None:
    ours = [line.strip() for line in STEPS["Compare"].splitlines()]
    theirs = [line.replace("FETCH_HEAD", '"origin/$GITHUB_BASE_REF"') for line in OTHER_JOB["script"]]
    assert [line for line in theirs if line.startswith("$BENCH")] == [
        line for line in ours if line.startswith("$BENCH")
    ]
    artifacts = next(step for step in JOB["steps"] if "upload-artifact" in step.get("uses", ""))["with"]["path"]
    assert OTHER_JOB["artifacts"]["paths"] == artifacts.split()


def test_a_base_revision_without_the_suite_directory_is_rejected(clone: Path) -> None:
    (clone / "bench").rename(clone / "perf")
    git(clone, "add", ".")
    ran = invoke("run", "perf/suite.toml", "--against", "origin/main", folder=clone)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "no directory 'perf'" in ran.stderr


@pytest.mark.parametrize(
    ("code", "of_github", "message"), [(0, 0, ""), (1, 1, "::error"), (2, 2, "::error"), (3, 0, "::warning")]
)
def test_the_ci_jobs_pass_unless_something_is_worse_or_wrong(code: int, of_github: int, message: str, clone) -> None:
    add_recorded_bench(clone, code)
    github, gitlab = run_github(clone), run_gitlab(clone)
    assert (github.returncode, gitlab.returncode) == (of_github, code), github.stderr + gitlab.stderr
    assert github.stdout.splitlines()[-1].partition(" ")[0] == message or not message
    assert OTHER_JOB["allow_failure"] == {"exit_codes": 3}
    assert (clone / "summary.md").read_text() == f"{RECORDED}\n"


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_the_gitlab_job_posts_the_comparison_to_the_merge_request_with_a_token(clone: Path, tmp_path: Path) -> None:
    add_recorded_bench(clone, 1)
    with running(tmp_path) as api:  # the step `after` ends the path, so that what follows does not matter
        here = {"CI_API_V4_URL": f"{api.url}/after/9", "CI_PROJECT_ID": 7, "CI_MERGE_REQUEST_IID": 8}
        assert run_gitlab(clone, **here, BENCH_TOKEN=7).returncode == 1
        (request,) = api.received()
    assert (request["method"], request["path"]) == ("POST", "/after/9/projects/7/merge_requests/8/notes")
    assert request["headers"]["private-token"] == "7"
    assert urllib.parse.parse_qs(request["body"]) == {"body": [f"{RECORDED}\n"]}


@pytest.mark.skipif(not ACTIONLINT, reason="actionlint is not installed; scripts/setup builds it with Go")
def test_the_github_workflow_is_valid() -> None:
    checked = subprocess.run([ACTIONLINT, "-"], input=TEXTS[0], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_all_workflow_steps_except_the_comparison_only_set_up_the_project() -> None:
    assert set(STEPS) == {"Set up", "Compare"}
    assert [line.split()[0] for line in OTHER_JOB["before_script"]] == ["git", "under-siege/scripts/setup"]
    assert STEPS["Set up"].split()[-1] == "under-siege/scripts/setup"
    assert (ROOT / "scripts" / "setup").is_file()
