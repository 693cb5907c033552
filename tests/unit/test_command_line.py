"""The command line of bench.py: the list of strategies, and invalid input."""

import json
import shlex

import click
import pytest
from click.shell_completion import BashComplete
from conftest import SERVERS

from under_siege.cli import bench
from under_siege.cli_options import COMMANDS

INVALID = [
    (["run", "--tolerance", "5%"], "--tolerance needs --against"),
    (["run", "2", "--keep-environment"], "--use-my-server-config needs an application"),
    (["run", "app:app", "--style", "jobs", "--method", "GET"], "--method GET with --jobs"),
    (["run", "-u", "0"], "'-u' / '--users'"),
    (["run", "-t", "banana"], "'banana'"),
    (["run", "-q", "-o", "."], "'.' is a folder"),
    (["lesson", "check"], "Missing argument 'FILE'"),
    (["lesson", "check", "a.py", "b.py"], "unexpected extra argument"),
    (["compare", "a.json", "b.json", "--tolerance", "5"], "'5' is not a percentage below 100 %: use for example 5%"),
    (["run", "99"], "unknown server '99'"),
    (["run", "nonsense"], "unknown server 'nonsense'"),
    (["drill", "2", "--task", "digest"], "remove --task"),
    (["run", "app:app", "--quick"], "--quick needs a suite with a quick version"),
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


NAMES = ["", *(name for names in COMMANDS.values() for name in names)]
PAGE_LINES, COLUMNS = 50, 80  # of a terminal


@pytest.fixture(params=NAMES)
def helped(request: pytest.FixtureRequest, run_cli) -> str:
    """Return the help of a command."""
    return run_cli(*request.param.split(), "--help").stdout


def test_each_help_shows_two_examples_and_fits_the_columns_of_a_terminal(helped: str) -> None:
    examples = helped.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert len(examples) >= 2
    assert all(line.startswith("  bench.py ") and "  " in line.strip() for line in examples)
    longest = [line.replace("bench.py", "under-siege") for line in helped.splitlines()]
    assert [line for line in longest if len(line) > COLUMNS] == []


def test_the_help_of_run_fits_two_screens(run_cli) -> None:
    assert len(run_cli("run", "--help").stdout.splitlines()) < 2 * PAGE_LINES


def test_help_says_of_exactly_the_options_with_several_values_that_they_may_be_repeated(run_cli) -> None:
    context = click.Context(bench)
    for name in NAMES[1:]:
        options = [each for each in bench.get_command(context, name).params if isinstance(each, click.Option)]
        text = " ".join(run_cli(*name.split(), "--help").stdout.split())
        assert text.count("may be repeated") == sum(each.multiple for each in options), name


EXAMPLES = [line for name in NAMES[1:] for line in bench.get_command(click.Context(bench), name).examples]


@pytest.mark.parametrize("arguments", [*bench.examples, *EXAMPLES])
def test_the_examples_are_valid(arguments: str) -> None:
    """Parsing an unknown command, option or value would raise an exception."""
    words = shlex.split(arguments.partition(" && ")[0])
    name, command, rest = bench.resolve_command(click.Context(bench), words)
    assert command.make_context(name, rest, parent=click.Context(bench)).args == []


def completed(*words: str) -> list[str]:
    """Return what bash offers for the last word."""
    complete = BashComplete(bench, {}, "under-siege", "_UNDER_SIEGE_COMPLETE")
    return [each.value for each in complete.get_completions(list(words[:-1]), words[-1])]


def test_a_shell_completes_commands_options_strategies_and_files() -> None:
    assert completed("ca") == ["capacity"]
    assert completed("lesson", "ch") == ["check"]
    assert "--keep" in completed("lesson", "check", "--")
    assert {"--users", "--use-my-server-config"} <= {*completed("run", "--us")}
    assert completed("run", "--us").count("--use-my-server-config") == 1
    assert "--keep-environment" not in completed("run", "--")
    assert completed("run", "2_a") == ["2_async", "2_a"]
    assert [path.stem for path in SERVERS] == completed("trace", "")[:-1]


def test_the_old_names_of_options_still_work(run_cli, tmp_path) -> None:
    for words in (["--style", "jobs"], ["--style", "waiting", "--jobs"], ["--jobs"]):
        assert "2_async accepts no jobs" in run_cli("run", "2", *words).stderr, words
    assert "--events" in run_cli("run", "2", "--style", "waiting", "--events", "3").stderr
    assert "a.json" in run_cli("compare", "--anyway", "a.json", "b.json").stderr
