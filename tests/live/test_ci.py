"""Run the steps of action.yml in an empty home, and the commands of docs/ci.md as documented."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from command import invoke
from conftest import ROOT
from repositories import commit_all, git
from sample_applications import TORNADO, write

from under_siege.record.result import load

BIN = Path(sys.executable).parent
VERSION = ".".join(map(str, sys.version_info[:2]))
PAGE = (ROOT / "docs" / "ci.md").read_text()
TEXTS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
GITHUB, GITLAB = map(yaml.safe_load, TEXTS)
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "run" in step}
INPUTS = {name: str(each.get("default", "")) for name, each in ACTION["inputs"].items()}
EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")
ACTIONLINT = shutil.which("actionlint", path=BIN)
GH = """\
#!/usr/bin/env bash
# Record the arguments, the marker and the body, and print the ids of comments.
printf '%s\\n' "$MARK" "$@" >>"$GH_CALLS"
for word; do if [[ $word == body=@* ]]; then cat "${word#body=@}" >>"$GH_CALLS"; fi; done
if [[ $* == *--paginate* ]]; then printf '%s' "$GH_COMMENTS"; fi
exit "$GH_CODE"
"""


class Runner:
    """A CI runner with an empty home, and a shallow clone of a pull request's branch."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder, folder / "work"
        origin = folder / "origin"
        write(origin, {"shop.py": TORNADO, "requirements.txt": "tornado\n"})
        commit_all(origin)
        git(origin, "checkout", "-q", "-b", "change")
        (origin / "shop.py").write_text(f"{TORNADO}\n# changed\n")
        commit_all(origin)
        git(folder, "clone", "-q", "--depth=1", "--branch=change", origin.as_uri(), self.work)
        for name in ("home", "temp", "programs"):
            (folder / name).mkdir()
        fake = folder / "programs" / "gh"
        fake.write_text(GH)
        fake.chmod(0o755)
        self.variables = {
            "HOME": folder / "home",
            "RUNNER_TEMP": folder / "temp",
            "PATH": f"{folder / 'programs'}:{os.environ['PATH']}",
            "GITHUB_ACTION_PATH": ROOT,
            "GITHUB_BASE_REF": "main",
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_OUTPUT": folder / "output",
            "GITHUB_REF": "refs/pull/12/merge",
            "GITHUB_REPOSITORY": "ann/shop",
            "GITHUB_RUN_ID": "34",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_STEP_SUMMARY": folder / "summary.md",
            "GH_CALLS": folder / "calls",
            "GH_CODE": 0,
            "GH_COMMENTS": "",
        }

    def run(self, name: str, inputs: Mapping[str, str] = {}, **variables: object) -> subprocess.CompletedProcess[str]:
        """Run a step as the runner does: with bash, and with the values of the expressions in `env`."""
        values = {f"inputs.{each}": value for each, value in {**INPUTS, **inputs}.items()}
        values |= {"steps.python.outputs.python-path": sys.executable, "steps.compare.outputs.exit-code": self.code}
        values["inputs.token"] = inputs.get("token", "a token")
        step = STEPS[name]
        env = {key: EXPRESSION.sub(lambda found: values[found[1]], text) for key, text in step["env"].items()}
        folder = EXPRESSION.sub(lambda found: values[found[1]], step.get("working-directory", "."))
        everything = {**os.environ, **self.variables, **env, **variables}
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.work / folder,
            env={key: str(value) for key, value in everything.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")},
            capture_output=True,
            text=True,
        )

    @property
    def code(self) -> str:
        output = self.folder / "output"
        return output.read_text().rpartition("exit-code=")[2].strip() if output.exists() else ""

    @property
    def out(self) -> Path:
        return self.folder / "temp" / "under-siege-out"

    def add_recorded_bench(self, code: int) -> None:
        """Install a program that ends with this code, prints a recorded comparison, and writes down its arguments."""
        program = self.folder / "temp" / "under-siege-venv" / "bin" / "under-siege"
        program.parent.mkdir(parents=True)
        program.write_text(
            f"#!/bin/sh\nif [ $1 = report ]; then echo 'a comparison'; exit; fi\n"
            f"printf '%s\\n' \"$@\" >'{self.folder}/words'\n"
            f"while [ $1 != --out ]; do shift; done; echo '{{}}' >$2; exit {code}\n"
        )
        program.chmod(0o755)

    def words(self) -> list[str]:
        return (self.folder / "words").read_text().splitlines()


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_the_action_measures_an_application_and_its_base_in_an_empty_home(runner: Runner) -> None:
    caches = {"UV_CACHE_DIR": subprocess.check_output([BIN / "uv", "cache", "dir"], text=True).strip()}
    installed = runner.run(next(iter(STEPS)), **caches)
    assert installed.returncode == 0, installed.stderr
    options = "--workers 1 --users 2 --time 0.5s --rounds 1"
    inputs = {"app": "shop:app", "path": "/v1/report", "python": VERSION, "args": options}
    compared = runner.run("Compare", inputs, **caches)
    assert compared.returncode == 0, compared.stderr
    assert runner.code in ("1", "3"), compared.stderr  # one round shows nothing
    records = load(runner.out / "result.json").records
    assert {record.failure for record in records} == {None}
    revisions = {str(record.values["revision"]).partition(" (")[0] for record in records}
    assert revisions == {"origin/main", "work tree"}
    assert {path.name for path in runner.out.iterdir()} == {"result.json", "page.html", "comparison.md"}
    assert (runner.folder / "summary.md").read_text() == (runner.out / "comparison.md").read_text()
    assert "| listen | " in (runner.folder / "summary.md").read_text()
    assert {*git(runner.work, "status", "--short").splitlines()} <= {"?? __pycache__/"}


def test_the_inputs_become_options_word_by_word(runner: Runner) -> None:
    runner.add_recorded_bench(0)
    inputs = {
        "app": "$(touch broken):app",
        "path": "/list?a=1; touch broken",
        "tolerance": "5%",
        "python": "/usr/bin/python3",
        "args": """--require "ping p99 < 50ms" --header 'X-A: $(touch broken)' -u 5""",
    }
    assert runner.run("Compare", inputs).returncode == 0
    assert runner.words() == [
        *("run", "$(touch broken):app", "--out", str(runner.out / "result.json")),
        *("--html", str(runner.out / "page.html"), "--quiet", "--path", "/list?a=1; touch broken"),
        *("--python", "/usr/bin/python3", "--against", "origin/main", "--tolerance", "5%"),
        *("--require", "ping p99 < 50ms", "--header", "X-A: $(touch broken)", "-u", "5"),
    ]
    assert not list(runner.folder.rglob("broken"))


def test_without_a_pull_request_nothing_is_compared_unless_a_base_is_given(runner: Runner) -> None:
    runner.add_recorded_bench(0)
    variables = {"GITHUB_BASE_REF": "", "GITHUB_EVENT_NAME": "schedule"}
    assert runner.run("Compare", {"suite": "bench/suite.toml"}, **variables).returncode == 0
    assert "--against" not in runner.words()
    base = git(runner.folder / "origin", "rev-parse", "main").strip()
    for against, passed in {base: base, "HEAD": "HEAD", "origin/main": "origin/main"}.items():
        ran = runner.run("Compare", {"suite": "bench/suite.toml", "against": against}, **variables)
        assert ran.returncode == 0, ran.stderr
        assert runner.words()[-1].removeprefix("origin/") == passed.removeprefix("origin/")
    assert runner.run("Comment", **variables).stdout == ""
    assert not (runner.folder / "calls").exists()


def test_the_action_refuses_arguments_with_an_open_quote(runner: Runner) -> None:
    runner.add_recorded_bench(0)
    refused = runner.run("Compare", {"app": "shop:app", "args": "--users 5 --require 'p99 < 1s"})
    assert refused.returncode != 0
    assert "quote" in refused.stderr
    assert not (runner.folder / "words").exists()


@pytest.mark.parametrize("inputs", [{}, {"app": "a:b", "suite": "suite.toml"}], ids=["neither", "both"])
def test_the_action_needs_either_an_application_or_a_suite(inputs: dict[str, str], runner: Runner) -> None:
    ran = runner.run("Compare", inputs)
    assert (ran.returncode, ran.stdout.count("::error")) == (2, 1)


@pytest.mark.parametrize(
    ("code", "strict", "ends", "message"),
    [
        (0, "false", 0, ""),
        (1, "false", 1, "::error"),
        (2, "false", 2, "::error"),
        (3, "false", 0, "::warning"),
        (3, "true", 3, "::warning"),
    ],
)
def test_the_action_fails_if_something_is_worse_or_on_request_if_it_is_unclear(
    code: int, strict: str, ends: int, message: str, runner: Runner
) -> None:
    runner.add_recorded_bench(code)
    assert runner.run("Compare", {"app": "shop:app"}).returncode == 0
    assert (runner.folder / "summary.md").read_text() == "a comparison\n"
    ended = runner.run("Verdict", {"fail-on-unclear": strict})
    assert (ended.returncode, ended.stdout.partition(" ")[0]) == (ends, message)


def test_the_action_writes_one_comment_and_then_updates_it(runner: Runner) -> None:
    runner.add_recorded_bench(0)
    runner.run("Compare", {"app": "shop:app"})
    marker, calls = "<!-- under-siege: under-siege -->", runner.folder / "calls"
    for comments, words in {
        "": ["--silent", "repos/ann/shop/issues/12/comments"],
        "56\n78\n": ["--silent", "--method", "PATCH", "repos/ann/shop/issues/comments/56"],
    }.items():
        assert runner.run("Comment", GH_COMMENTS=comments).stdout == ""
        asked, written = calls.read_text().split(f"{marker}\napi\n")[1:]
        assert asked.splitlines()[:2] == ["--paginate", "repos/ann/shop/issues/12/comments"]
        lines = written.splitlines()
        assert lines[: len(words)] == words
        body = lines[len(words) + 2 :]
        assert body[:2] == [marker, "a comparison"]
        assert body[-1].endswith("https://github.com/ann/shop/actions/runs/34)")
        calls.unlink()


def test_without_permission_to_comment_the_action_says_where_the_comparison_is(runner: Runner) -> None:
    runner.add_recorded_bench(0)
    runner.run("Compare", {"app": "shop:app"})
    refused = runner.run("Comment", GH_CODE=1)
    assert (refused.returncode, refused.stdout.partition(" ")[0]) == (0, "::notice")
    assert runner.run("Comment", {"token": ""}).stdout == ""


@pytest.mark.parametrize("step", STEPS)
def test_scripts_of_the_action_are_sound_and_contain_no_expressions(step: str) -> None:
    """An expression in a script would run what an input contains."""
    assert not EXPRESSION.search(STEPS[step]["run"])
    checked = subprocess.run(
        [BIN / "shellcheck", "--shell=bash", "-"], input=STEPS[step]["run"], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
    named = {*re.findall(r"\$\{?([A-Z_]+)\b", STEPS[step]["run"])}
    assert {name for name in STEPS[step]["env"] if name != "GH_TOKEN"} <= named


def test_the_page_documents_every_input_of_the_action() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == {*INPUTS}
    assert [f"`{name}`" for name in ACTION["outputs"] if f"`{name}`" not in PAGE] == []


def test_the_documented_github_job_uses_inputs_that_exist() -> None:
    (job,) = GITHUB[True]["jobs"].values() if "jobs" not in GITHUB else GITHUB["jobs"].values()
    (used,) = [step for step in job["steps"] if "under-siege" in step["uses"]]
    assert {*used["with"]} <= {*INPUTS}
    own = yaml.safe_load((ROOT / ".github" / "workflows" / "performance.yml").read_text())
    steps = [step for job in own["jobs"].values() for step in job["steps"]]
    assert {*next(step for step in steps if step["uses"] == "./")["with"]} <= {*INPUTS}


@pytest.mark.skipif(not ACTIONLINT, reason="actionlint is not installed; scripts/setup builds it with Go")
def test_the_documented_github_workflow_is_valid() -> None:
    checked = subprocess.run([ACTIONLINT, "-"], input=TEXTS[0], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_gitlab_job_compares_with_the_target_branch_and_ends_with_the_code_of_the_run(
    code: int, runner: Runner
) -> None:
    runner.add_recorded_bench(code)
    programs = runner.folder / "programs"
    shutil.copy(runner.folder / "temp" / "under-siege-venv" / "bin" / "under-siege", programs)
    (programs / "pip").write_text("#!/bin/sh\n")
    (programs / "pip").chmod(0o755)
    job = GITLAB["performance"]
    env = {**os.environ, **{name: str(value) for name, value in runner.variables.items()}}
    env["CI_MERGE_REQUEST_TARGET_BRANCH_NAME"] = "main"
    script = "\n".join(job["script"]).replace("--html page.html", "--html page.html --out raw.json")
    ran = subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=runner.work, env=env, capture_output=True)
    assert ran.returncode == code
    assert job["allow_failure"] == {"exit_codes": 3}
    assert git(runner.work, "rev-parse", "FETCH_HEAD") == git(runner.folder / "origin", "rev-parse", "main")
    words = runner.words()
    assert words[words.index("--html") + 1] == job["artifacts"]["paths"][0]


def test_a_base_revision_without_the_suite_directory_is_rejected(runner: Runner) -> None:
    (runner.work / "perf").mkdir()
    (runner.work / "perf" / "suite.toml").write_text('[servers.a]\ncommand = "serve {port}"\n')
    commit_all(runner.work)
    ran = invoke("run", "perf/suite.toml", "--against", "HEAD~1", folder=runner.work)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "no directory 'perf'" in ran.stderr
