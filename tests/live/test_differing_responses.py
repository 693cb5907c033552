"""Responses that differ by design: the bench suggests what to ignore, and checks the rest."""

from pathlib import Path

from command import invoke
from scripted_server import write_suite


def test_the_bench_suggests_fields_to_ignore_if_responses_differ(tmp_path: Path) -> None:
    """test_paced_loads.py measures such a server with these fields ignored."""
    write_suite(tmp_path, "/echo")
    ran = invoke("run", "suite.toml", "--rounds", "1", "--time", "1s", folder=tmp_path)
    assert ran.returncode == 1
    assert 'ignore = ["number"]' in ran.stderr


def test_an_ignored_field_that_does_not_exist_causes_a_one_line_error(tmp_path: Path) -> None:
    write_suite(tmp_path, "/echo", more='[expect]\nignore = ["number", "gone"]\n')
    ran = invoke("run", "suite.toml", "--rounds", "1", "--time", "1s", folder=tmp_path)
    assert (ran.returncode, ran.stderr.count("\n"), "'gone'" in ran.stderr) == (2, 1, True), ran.stderr


def test_a_warning_says_that_a_cache_may_answer_equal_requests(tmp_path: Path) -> None:
    write_suite(tmp_path, "/slow/0.5/text/right/after/1/slow/0")
    ran = invoke("run", "suite.toml", "--rounds", "1", "--time", "1s", folder=tmp_path)
    assert "requests_file" in ran.stderr
    write_suite(tmp_path, "/slow/0.5/text/right")
    ran = invoke("run", "suite.toml", "--rounds", "1", "--time", "1s", folder=tmp_path)
    assert "requests_file" not in ran.stderr
