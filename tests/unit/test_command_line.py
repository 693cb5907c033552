"""The command line of bench.py: the list of strategies, and invalid input."""

import json

import pytest
from conftest import SERVERS

INVALID = [
    (["run", "--tolerance", "5%"], "--tolerance needs --against"),
    (["compare", "a.json", "b.json", "--tolerance", "5"], "'5' is not a percentage below 100 %: use for example 5%"),
    (["run", "99"], "unknown server '99'"),
    (["run", "nonsense"], "unknown server 'nonsense'"),
    (["drill", "2", "--task", "digest"], "remove --task"),
    (["run", "app:app", "--quick"], "--quick needs a suite with a quick profile"),
    (["run", "http://127.0.0.1:9/", "--stream", "sse", "--events", "0"], "at least 1 event"),
    (["report", "results/sample.json.gz", "--across", "task", "--format", "json"], "--across with --format json"),
    (["run", "shop:create_app('prod')"], "write a module with app = create_app('prod'), such as serve.py"),
    (["run", "missing.py"], "missing.py"),
    (["run", "."], "suite.toml"),
    (["run", "empty.py"], "server contract"),
    (["run", "broken.py"], "is not Python"),
    (["run", "--users", "0"], "--users"),
    (["run", "--time", "0"], "'0'"),
    (["run", "--time", "banana"], "4s"),
    (["run", "--time", "-4s"], "'-4s'"),
    (["run", "--rounds", "0"], "'0'"),
    (["run", "--workers", "0"], "--workers"),
    (["run", "--python", "no-such-python"], "no-such-python"),
    (["run", "--out", "no/such/folder/r.json"], "no/such/folder/r.json"),
    (["run", "--out", "."], "folder"),
    (["run", "--nonsense"], "--nonsense"),
    (["nonsense"], "nonsense"),
    (["report"], "Missing argument"),
    (["report", "missing.json"], "missing.json"),
    (["report", "broken.py"], "broken.py"),
    (["report", "later.json"], "schema 999"),
    (["report", "half.json"], "half.json"),
    (["report", "half.json", "--format", "poem"], "--format"),
    (["compare", "half.json", "half.json"], "half.json"),
]


@pytest.mark.parametrize(("words", "error"), INVALID, ids=lambda part: " ".join(part) if isinstance(part, list) else "")
def test_invalid_input_causes_a_one_line_error_before_a_result_file_is_created(words, error, run_cli, tmp_path) -> None:
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "broken.py").write_text("def nothing(:\n")
    (tmp_path / "later.json").write_text('{"schema": 999}')
    (tmp_path / "half.json").write_text('{"schema": 1, "records": [')
    refused = run_cli(*words)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert error in refused.stderr
    assert not list(tmp_path.glob("results/*"))


def test_list_shows_every_strategy_with_its_title_and_port(run_cli) -> None:
    lines = run_cli("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [path.stem for path in SERVERS]
    entries = json.loads(run_cli("list", "--json").stdout)
    assert [entry["server"] for entry in entries] == [path.stem for path in SERVERS]
    assert entries[2]["port"] == 8002
    assert all(entry["title"] in line for entry, line in zip(entries, lines, strict=True))
