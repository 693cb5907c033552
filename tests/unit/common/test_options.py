"""The command-line options of a server."""

import pytest
from conftest import SERVERS

from common.options import Options, default_port, server_options

INVALID = {
    "--task nothing": "unknown task",
    "--task no_such_module:f": "no_such_module",
    "--task sample_tasks:is_async_generator": "async generator",
    "--task sample_tasks:returns_its_arguments(open)": "literals",
    "--task sample_tasks:needs_arguments('acme')": "missing a required argument",
    "--task primes(3)": "primes takes no arguments",
    "--workers 0": "1 to 1000",
    "--port banana": "0 to 65535",
    "--nonsense": "--nonsense",
}


def options_of(words: str, monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.setattr("sys.argv", [str(SERVERS[3]), *words.split()])
    return server_options(4)


@pytest.mark.parametrize("words", INVALID)
def test_invalid_options_cause_a_one_line_error(words: str, monkeypatch, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        options_of(words, monkeypatch)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("4_async_processexecutor: ")
    assert INVALID[words] in line


def test_servers_have_a_default_task_and_listen_on_loopback_at_the_port_of_their_number(monkeypatch) -> None:
    assert options_of("", monkeypatch) == Options("4_async_processexecutor", "127.0.0.1", 8003, "primes", 4, None)
    assert [default_port(path.stem) for path in SERVERS] == list(range(8000, 8000 + len(SERVERS)))


def test_help_names_the_default_port(monkeypatch, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        options_of("--help", monkeypatch)
    assert ended.value.code == 0
    assert "8003" in capsys.readouterr().out
