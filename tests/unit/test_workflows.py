"""The workflows, pre-commit hooks and .editorconfig agree with the checks of run_tests.sh."""

import configparser
import re
import tomllib

import yaml
from conftest import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"
PRE_COMMIT = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
HOOKS = {hook["id"]: hook for repository in PRE_COMMIT["repos"] for hook in repository["hooks"]}
RUN_TESTS = (ROOT / "run_tests.sh").read_text()


def test_the_workflow_tests_every_supported_python() -> None:
    job = yaml.safe_load((WORKFLOWS / "tests.yml").read_text())["jobs"]["tests"]
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14", "3.15"]
    assert 'requires-python = ">=3.11"' in (ROOT / "pyproject.toml").read_text()
    assert "./run_tests.sh" in [step.get("run") for step in job["steps"]]
    (every_night,) = yaml.safe_load((WORKFLOWS / "nightly.yml").read_text())["jobs"].values()
    assert "./run_tests.sh --all" in [step.get("run") for step in every_night["steps"]]


def test_pre_commit_runs_the_same_checks_as_run_tests() -> None:
    checks = set(re.findall(r"^(?:if .*; then )?(ruff \w+|mypy|shellcheck|actionlint)\b", RUN_TESTS, re.MULTILINE))
    assert len(checks) == 5
    assert {hook.replace("-", " ") for hook in HOOKS} == checks
    for hook, check in ((HOOKS[name.replace(" ", "-")], name) for name in checks - {"actionlint"}):
        assert hook["entry"].startswith(f".venv/bin/{check}"), "the hook must use the version in .venv"
    shell_files = re.search("^shellcheck (.*)$", RUN_TESTS, re.MULTILINE)[1]
    assert HOOKS["shellcheck"]["entry"] == f".venv/bin/shellcheck {shell_files}"


def test_pre_commit_and_setup_use_the_same_version_of_actionlint() -> None:
    version = re.search(r"local version=(\S+)", (ROOT / "scripts" / "setup").read_text())[1]
    assert HOOKS["actionlint"]["additional_dependencies"] == [f"github.com/rhysd/actionlint/cmd/actionlint@v{version}"]


def test_editors_and_ruff_use_the_same_line_length() -> None:
    editor = configparser.ConfigParser()
    editor.read_string("[DEFAULT]\n" + (ROOT / ".editorconfig").read_text())
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    assert editor["*.py"]["max_line_length"] == str(ruff["line-length"])
