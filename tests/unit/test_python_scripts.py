"""The Python scripts in scripts/: their help, and the errors for missing and invalid files."""

import runpy
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from source_code import script

READERS = {"measured_table": [], "simulate_probes": [], "slides": ["--result"]}
NO_TABLE = b'{"command": "", "conditions": "", "rows": {}}'
RESULTS = ROOT / "results"


def refusal(name: str, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *READERS[name], str(path)])
    with pytest.raises(SystemExit) as ended:
        sys.exit(script(name).main())
    shown = capsys.readouterr()
    assert (ended.value.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    return shown.err.strip()


@pytest.mark.parametrize("name", READERS)
def test_a_missing_or_invalid_file_causes_a_one_line_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], golden
) -> None:
    files = {"missing": None, "binary": b"\xff{", "other": NO_TABLE}
    for file, content in files.items():
        if content is not None:
            (tmp_path / file).write_bytes(content)
    errors = [refusal(name, tmp_path / file, monkeypatch, capsys) for file in files]
    golden(*(error.replace(str(tmp_path), "") for error in errors))


@pytest.mark.parametrize(
    ("name", "result"),
    [("simulate_probes", "questions/20-requests-per-second.json.gz"), ("measured_table", "sample.json.gz")],
)
def test_the_error_for_a_result_without_the_needed_data_says_what_to_use(
    name: str, result: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], golden
) -> None:
    golden(refusal(name, RESULTS / result, monkeypatch, capsys))


@pytest.mark.parametrize("path", sorted((ROOT / "scripts").glob("*.py")), ids=lambda path: path.stem)
def test_every_script_prints_its_help(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [path.name, "--help"])
    monkeypatch.syspath_prepend(path.parent)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert ended.value.code == 0
    assert f".venv/bin/python scripts/{path.name}" in capsys.readouterr().out
