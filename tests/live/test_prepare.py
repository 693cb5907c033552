"""Preparation before the load: `prepare` commands, libraries, warm-up, files as expected responses, limited ports."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fake_load import SilentWatcher
from simulated_bursts import burst_record_of
from simulated_record import bare_record
from simulated_results import result_of

from common.errors import BadInputError
from under_siege.drill.drill_run import drill_plan
from under_siege.host.ports import own_network
from under_siege.judge.ranking import summarize
from under_siege.load.http_client import HttpResponse
from under_siege.load.request import WarmUp
from under_siege.load.tool import LoadSpec, ToolOutput
from under_siege.load.wrk import Wrk
from under_siege.measure import start_command
from under_siege.measure.plan import EnvironmentKey, Plan, make_plan
from under_siege.measure.prepare import ask_for_references, prepared
from under_siege.record.record import CaseFailedError
from under_siege.show.notes import notes
from under_siege.suite.expected_response import Expectation, Files
from under_siege.suite.suite_file import read_suite


def plan_in(folder: Path, text: str) -> Plan:
    (folder / "s.toml").write_text(text)
    return make_plan(read_suite(folder / "s.toml"), {"python": [sys.executable]}, time_s=None, rounds=1)


def start_command_of(plan: Plan, server: str) -> list[str]:
    """Return the command that starts this server."""
    case = next(case for case in (*plan.cases, *plan.ceilings) if case.server == server)
    with start_command.start_of(plan, case, 8123, {}) as found:
        return found.words


SERVERS = "".join(f'[servers.{name}]\ncommand = "serve {{port}} {name}"\n' for name in ("plain", "built", "broken"))


def test_each_prepare_command_runs_once_and_one_that_fails_affects_only_its_own_server(tmp_path: Path) -> None:
    (tmp_path / "note.py").write_text("import sys; open('done', 'a').write(sys.argv[1] + ' ')")
    (tmp_path / "fail.py").write_text("raise SystemExit('no compiler here')")
    text = SERVERS.replace('built"\n', 'built"\nprepare = "python note.py {size}"\n')
    text = text.replace('broken"\n', 'broken"\nprepare = "python fail.py"\n')
    plan = plan_in(tmp_path, f'prepare = "python note.py all"\n[axes]\nsize = [1, 2]\n{text}')
    ready = asyncio.run(prepared(plan, SilentWatcher()))
    assert (tmp_path / "done").read_text() == "all 1 2 "
    assert start_command_of(ready, "plain")[-1] == "plain"
    assert start_command_of(ready, "built")[-1] == "built"
    with pytest.raises(CaseFailedError, match=r"the prepare command failed: 'python fail\.py': no compiler here"):
        start_command_of(ready, "broken")


def test_a_failing_prepare_command_of_the_suite_fails_all_cases(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, f'prepare = "no-such-program {{suite}}"\n{SERVERS}')
    ready = asyncio.run(prepared(plan, SilentWatcher()))
    for name in ("plain", "built", "broken"):
        with pytest.raises(CaseFailedError, match="can't be started: 'no-such-program': No such file") as failed:
            start_command_of(ready, name)
        assert failed.value.code == "not_prepared"


def test_a_missing_library_is_reported_with_the_command_that_installs_it(tmp_path: Path, monkeypatch) -> None:
    plan = plan_in(tmp_path, '[servers.one]\ncommand = "serve {port}"\nneeds = ["libev"]\n')
    monkeypatch.setattr(start_command, "find_library", {"ev": None}.__getitem__)
    with pytest.raises(CaseFailedError, match=r"libev is missing; install it with: .*libev"):
        start_command_of(plan, "one")
    monkeypatch.setattr(start_command, "find_library", {"ev": "libev.so.4"}.__getitem__)
    assert start_command_of(plan, "one") == ["serve", "8123"]


def test_a_failed_build_is_reported_with_the_missing_compiler_or_headers(tmp_path: Path, monkeypatch) -> None:
    needs = 'requirements = ["built==1"]\nneeds = ["libev", "COMPILER"]\n'
    text = f'[servers.one]\ncommand = "serve {{port}}"\n{needs}'
    monkeypatch.setattr(start_command, "find_library", {"ev": "libev.so.4"}.__getitem__)
    for compiler, reason in (
        ("no-such-cc", "no-such-cc is not installed"),
        ("sh", "no ev.h; libev is installed, but its headers"),
    ):
        plan = plan_in(tmp_path, text.replace("COMPILER", compiler))
        made = {EnvironmentKey(("built==1",), (), next(iter(plan.pythons)), tmp_path): "no ev.h"}
        with pytest.raises(CaseFailedError, match=reason):
            start_command_of(replace(plan, environments=made), "one")


def test_the_warm_up_of_a_server_overrides_that_of_the_suite(tmp_path: Path) -> None:
    own, none = "warm_up = 6_000\n", "warm_up = 0\n"
    text = SERVERS.replace('built"\n', f'built"\n{own}').replace('broken"\n', f'broken"\n{none}')
    plan = plan_in(tmp_path, f'[load]\ntool = "ab"\nwarm_up = "2s"\nrequests = 10\n{text}')
    found = {case.server: plan.warm_up_of(case) for case in plan.cases}
    assert found["broken"] is None
    assert (found["built"].requests, found["built"].time_s) == (6000, None)
    assert (found["plain"].requests, found["plain"].time_s) == (None, 2.0)
    assert plan.load.warm_up == WarmUp(time_s=2.0)


def warm_up_notes(answers: int, cpu_s: float | None) -> list[str]:
    """Return the warm-up notes on a server whose first `answers` responses used `cpu_s`, and each later one 0.1 s."""
    record = burst_record_of("1_x")
    record.warm_up_answers, record.warm_up_cpu_s = answers, cpu_s
    result = result_of([bare_record(), record])
    one = summarize(result).cases[0].cpu_s_per_transaction
    assert one == pytest.approx(0.1)
    return [message for _, message in notes(summarize(result)) if "the warm-up is not part" in message]


def test_a_note_reports_that_the_first_responses_used_more_cpu_time_than_later_ones() -> None:
    (note,) = warm_up_notes(6000, 6000 * 0.25)
    assert note.startswith("its first 6,000 responses used 250 ms of CPU each, later ones 100 ms; ")
    assert warm_up_notes(6000, 6000 * 0.13) == warm_up_notes(0, 0.0) == warm_up_notes(6000, None) == []


RIGHT = b'{"a": 1, "b": [2, 3]}'


def test_the_error_states_that_a_response_is_equal_as_json_but_not_byte_for_byte() -> None:
    expected = Expectation(RIGHT, 0.1, 0.0)
    assert expected.problem(HttpResponse(200, RIGHT, {})) == ""
    assert expected.problem(HttpResponse(200, b'{"a":1,"b":[2,3]}', {})).endswith(
        "(equal as JSON, but not byte for byte)"
    )
    assert "JSON" not in expected.problem(HttpResponse(200, b'{"a":1,"b":[2,4]}', {}))
    assert "JSON" not in expected.problem(HttpResponse(500, b'{"a":1,"b":[2,3]}', {}))


def test_responses_without_the_required_header_are_rejected() -> None:
    expected = Expectation(RIGHT, 0.1, 0.0, headers=(("X-Served-By", "whitenoise"),))
    assert expected.problem(HttpResponse(200, RIGHT, {"x-served-by": "whitenoise"})) == ""
    other = expected.problem(HttpResponse(200, RIGHT, {"x-served-by": "flask\x1b[31m"}))
    assert other == "X-Served-By: flask�[31m instead of X-Served-By: whitenoise; another server may have answered"
    assert expected.problem(HttpResponse(200, RIGHT, {})).startswith("no X-Served-By instead of")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {"a/1.txt": "one", "a/2 3.txt": "two and three", "b.txt": ""}.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    return tmp_path / "tree"


def test_the_expected_response_is_the_content_of_the_requested_file(tree: Path) -> None:
    expected = Expectation(b"", 0.1, 0.0, files=Files(tree))
    assert expected.size_bytes == -1
    references = dict(expected.for_request("http://here/x/{file}") for _ in range(100))
    assert {url: one.answer for url, one in references.items()} == {
        "http://here/x/a/1.txt": b"one",
        "http://here/x/a/2%203.txt": b"two and three",
        "http://here/x/b.txt": b"",
    }
    right = references["http://here/x/a/1.txt"]
    assert not right.problem(HttpResponse(200, b"one", {}))
    assert right.problem(HttpResponse(200, b"two", {})).startswith(
        "200 with 3 bytes 'two' instead of 200 with 3 bytes 'one'"
    )


SUITE_OF_FILES = (
    '[load]\ntool = "wrk"\npath = "/{file}"\nfiles = "tree"\n[ping]\npath = "/ping"\n'
    '[servers.one]\ncommand = "serve {port} {files}"\n'
)


def test_a_suite_with_files_needs_no_reference_request(tree: Path) -> None:
    plan = plan_in(tree.parent, SUITE_OF_FILES)
    (expected,) = asyncio.run(ask_for_references(plan, None, SilentWatcher())).values()
    assert expected.files.sizes == {"a/1.txt": 3, "a/2 3.txt": 13, "b.txt": 0}
    assert start_command_of(plan, "one") == ["serve", "8123", str(tree)]
    with pytest.raises(BadInputError, match=r"load\.files: drill sends its own requests and supports only one path"):
        drill_plan(plan.suite, (), {"python": [sys.executable]}, rounds=1, seed=None)
    for path in tree.rglob("*.txt"):
        path.unlink()
    with pytest.raises(BadInputError, match=r"load\.files: no files in"):
        asyncio.run(ask_for_references(plan, None, SilentWatcher()))


LINE = (
    '{{"requests": 100, "duration_us": 1000000, "connect": {errors}, "read": 0, "write": 0, "status": 0, "p50_us": 1, '
    '"p95_us": 1, "p99_us": 1, "max_us": 1, "asked_bytes": 500000, "body_bytes": {got}, "wrong_bodies": 0}}'
)


@pytest.mark.parametrize(
    ("got", "errors", "odd"), [(500_000, 0, 0), (441_000, 0, 0), (439_000, 0, 1000), (0, 0, 440_000), (0, 1, None)]
)
def test_wrk_totals_tolerate_missing_bytes_of_responses_in_flight(got: int, errors: int, odd: int | None) -> None:
    order = LoadSpec(10, 1.0, "http://here/", threads=2, paths=(("/a", 5000), ("/b", 1)))
    totals = Wrk().totals(ToolOutput(0, LINE.format(got=got, errors=errors)), order)
    assert (totals.body_bytes, totals.odd_bytes) == (got, odd)
    get = {"request.lua": 'wrk.method, wrk.body = "GET", nil\n'}
    assert Wrk().files(order) == {"paths.txt": "5000 /a\n1 /b\n", "expected.lua": "return nil\n", **get}
    assert Wrk().files(replace(order, paths=(), expected=b'"\n')) == {"expected.lua": 'return "\\034\\010"\n', **get}


def test_responses_whose_lengths_differ_from_those_of_the_files_fail_the_case() -> None:
    def verdict(odd: int | None) -> str:
        record = burst_record_of("1_x", odd_bytes=odd, body_bytes=None)
        record.answer_bytes = -1
        return summarize(result_of([bare_record(), record])).cases[0].verdict

    assert (verdict(12_345), verdict(0), verdict(None)) == ("failed", "ok", "ok")


def test_a_private_network_can_have_a_limited_port_range() -> None:
    settings, messages = Path("/proc/sys/net/ipv4"), []
    if not settings.is_dir():
        pytest.skip("this is not Linux")
    before = (settings / "ip_local_port_range").read_text(), (settings / "tcp_tw_reuse").read_text()
    with own_network(messages.append, 150) as is_own:
        if not is_own:
            pytest.skip(messages[0])
        first, last = map(int, (settings / "ip_local_port_range").read_text().split())
        assert last - first + 1 == 150
        assert (settings / "tcp_tw_reuse").read_text() == "0\n"
    assert before == ((settings / "ip_local_port_range").read_text(), (settings / "tcp_tw_reuse").read_text())
