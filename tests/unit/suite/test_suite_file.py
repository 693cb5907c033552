"""Suite files: valid files define the cases of a run, and invalid files cause one-line errors."""

import contextlib
import dataclasses
from pathlib import Path

import pytest
from any_text import any_text
from command import invoke
from conftest import ROOT, TESTS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from suite_plans import plan_in, start_in, starting

from common.errors import BadInputError
from under_siege.load.body_rule import ANY
from under_siege.load.request import Ping
from under_siege.measure.plan import make_plan
from under_siege.measure.server_command import suite_command
from under_siege.suite import keys, suite_file
from under_siege.suite.selection import suite_of
from under_siege.suite.suite_file import read_suite
from under_siege.suite.suite_from_application import TargetOptions

SERVER = '[servers.one]\ncommand = "serve {port}"\n'
OTHER = '[servers.other]\ncommand = "serve {port}"\n'
LOAD, EXPECT, PING, AXES = SERVER + "[load]\n", SERVER + "[expect]\n", SERVER + "[ping]\n", SERVER + "[axes]\n"


def suite_in(folder: Path, text: str) -> Path:
    path = folder / "shop.toml"
    path.write_text(text)
    return path


BAD = [
    "[servers",
    SERVER + SERVER,
    LOAD + "users = " + "9" * 5000,
    'title = "x"',
    'folder = "gone"\n' + SERVER,
    # unknown keys, and values of a wrong type or out of range
    "titel = 'x'\n" + SERVER,
    LOAD + "user = 3",
    SERVER + 'requirement = ["x"]',
    SERVER + "[quick]\nrequests = 5",
    SERVER + '[require]\ntwo = ["p99 < 1s"]',
    'servers = "x"',
    SERVER + "headers = 3",
    LOAD + "users = []",
    LOAD + "users = [0]",
    LOAD + "users = true",
    LOAD + "users = " + "9" * 4000,
    LOAD + "own_network = 5",
    EXPECT + "status = 2000",
    AXES + "workers = []",
    # texts
    'title = " "\n' + SERVER,
    '[servers.one]\ncommand = "serve\\u0000 {port}"',
    '[servers."a b"]\ncommand = "serve {port}"',
    SERVER + 'environment = { "A=B" = "x" }',
    LOAD + 'tool = "jmeter"',
    LOAD + 'method = "FETCH"',
    EXPECT + 'body = "alike"',
    # times
    LOAD + 'time = "soon"',
    LOAD + 'time = "2s"\nrequests = 5',
    SERVER + "ready_within = 0",
    SERVER + 'warm_up = "soon"',
    SERVER + '[drain]\npath = "/metrics"',
    # commands
    "[servers.one]\ntitle = 'x'",
    '[servers.one]\ncommand = "serve"',
    "[servers.one]\ncommand = '\"\" {port}'",
    '[servers.one]\ncommand = "serve \'x {port}"',
    '[servers.one]\ncommand = "serve {port} {size}"',
    SERVER + 'prepare = "make {size}"',
    SERVER + 'reload = "make {size}"',
    '[servers.one]\nurl = "http://127.0.0.1:1"\nreload = "make"',
    'prepare = "make {port}"\n' + SERVER,
    EXPECT + 'check = "look {port}"',
    SERVER + 'requirements = ["uvicorn = 3"]',
    SERVER + 'requirements = ["-r gone.txt"]',
    # axes
    AXES + "workers = [1, 2]",
    AXES + "port = [1]",
    SERVER.replace("}", "} {workers}") + '[axes]\nworkers = ["x"]',
    SERVER.replace("}", "} {a}") + '[axes]\na = ["{port}"]',
    # paths and addresses
    LOAD + 'path = "report"',
    LOAD + 'path = "/caf\u00e9"',
    LOAD + 'path = "/a/../b"',
    LOAD + 'path = "/{size}"',
    LOAD + 'path = "/{name}"\n[axes]\nname = ["a", "b c"]',
    PING + 'path = "/{size}"',
    SERVER + 'path = "report"',
    SERVER + 'path = "/a"\n[load]\npath = ["/a", "/b"]',
    OTHER + SERVER + 'path = "/a"\nceiling = true',
    '[servers.one]\nurl = "https://x"',
    "[servers.one]\nurl = 'http://127.0.0.1:99999'",
    "[servers.one]\nurl = 'http://me:pw@127.0.0.1'",
    # ceilings
    SERVER + "ceiling = true\n" + OTHER + "ceiling = true",
    SERVER + "ceiling = true",
    # requests
    LOAD + 'files = "x"\ntool = "wrk"',
    LOAD + 'path = "/{file}"',
    LOAD + 'path = "/{file}"\nfiles = "x"\ntool = "wrk"',
    LOAD + 'path = "/{file}"\nfiles = "x"',
    LOAD + 'tool = "locust"\nscript = "gone.py"',
    LOAD + 'body_file = "gone.json"',
    LOAD + 'body = "x"\nbody_file = "y"',
    LOAD + 'method = "GET"\nbody = "x"',
    LOAD + "body = { day = 2026-01-01 }",
    LOAD + 'headers = { X-Shop = "7\\r\\nX-Admin: 1" }',
    LOAD + "headers = { Content-Length = 3 }",
    # correct responses
    EXPECT + 'file = "gone.txt"',
    EXPECT + 'file = "/dev/zero"',
    EXPECT + 'ignore = ["id"]\njson = { a = 1 }',
    EXPECT + 'json = { "a..b" = 1 }',
    EXPECT + 'ignore = [".id"]',
    EXPECT + 'pattern = "total: (\\\\d+"',
    # the quick version
    "quick = 3\n" + SERVER,
    SERVER + "[quick]\nload = 3",
    SERVER + "[quick.load]\nuser = 3",
    SERVER + "[quick.axes]\nwidth = [3]",
    SERVER + "[quick]\nservers = ['two']",
    SERVER + '[quick.load]\ntime = "2s"\nrequests = 3',
]


def test_an_invalid_suite_causes_a_one_line_error(tmp_path: Path, golden) -> None:
    errors = []
    for text in BAD:
        with pytest.raises(BadInputError) as refused:
            read_suite(suite_in(tmp_path, text))
        errors.append(str(refused.value).replace(str(tmp_path), ""))
    assert [error for error in errors if not error.isprintable()] == []
    golden(*errors)


MANY = "".join(f"{name} = {list(range(200))}\n" for name in "ab")


@pytest.mark.parametrize(
    "text",
    [LOAD + "users = [0]", f'[servers.one]\ncommand = "serve {{port}} {{a}} {{b}}"\n[axes]\n{MANY}'],
    ids=["invalid value", "40,000 combinations"],
)
def test_an_invalid_suite_ends_the_run_with_exit_code_2_before_anything_starts(text: str, tmp_path: Path) -> None:
    suite_in(tmp_path, text)
    for words in (["run", "shop.toml"], ["run", "shop.toml", "--quick"]):
        ran = invoke(*words, folder=tmp_path)
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert not (tmp_path / "results").exists()


def keys_of(table: type, prefix: str) -> list[str]:
    return [f"{prefix}{key}" for key in table.__struct_fields__]


def test_the_manual_documents_every_key() -> None:
    manual = (ROOT / "docs" / "suites.md").read_text()
    tables = ("load", "expect", "ping", "drain", "servers", "quick", "axes", "limits", "require")
    documented = [key for key in keys_of(keys.SuiteTable, "") if key not in tables]
    documented += keys_of(keys.MixedRequestTable, "")
    shared = ("title", "requirements", "environment", "prepare")  # documented with the keys of the suite
    for name, table in keys._TABLES.items():
        prefix = "servers.NAME." if name == "servers" else f"{name}."
        documented += [key for key in keys_of(table, prefix) if name != "servers" or key.split(".")[-1] not in shared]
    assert [key for key in documented if f"`{key}`" not in manual] == []


WRONG_ARGUMENTS = [
    ("shop.toml", "2"),
    ("shop.toml", "http://127.0.0.1:1/"),
    ("shop.toml:two",),
    ("shop.toml", "--workers", "2"),
    ("shop.toml", "--task", "primes"),
    ("shop.toml", "--quick"),
    ("2", "--quick"),
    ("http://127.0.0.1:1/a", "--quick"),
    ("shop.toml", "--ping", "/x"),
    ("gone.toml",),
    (".",),
    ("https://127.0.0.1/",),
    ("http://127.0.0.1:1/a", "http://127.0.0.1:2/b"),
    ("http://127.0.0.1:2/a", "http://127.0.0.1:1/a", "http://127.0.0.1:1/a"),
    ("http://127.0.0.1:1/a", "--ping", "x"),
    ("http://127.0.0.1:99999/",),
    ("http://:80/",),
    ("http://me:secret@127.0.0.1/",),
    ("http://127.0.0.1/caf\u00e9",),
]


def test_invalid_arguments_of_run_cause_a_one_line_error(tmp_path: Path, golden) -> None:
    suite_in(tmp_path, SERVER)
    ended = [invoke("run", *words, folder=tmp_path) for words in WRONG_ARGUMENTS]
    assert {(one.returncode, one.stderr.count("\n")) for one in ended} == {(2, 1)}
    golden(*(one.stderr.strip().replace(str(tmp_path), "") for one in ended))


def test_a_list_of_values_in_a_suite_becomes_an_axis(tmp_path: Path) -> None:
    plan = plan_in(
        tmp_path,
        '[load]\nusers = [5, 25]\npath = "/report?size={size}"\nkeep_alive = [false, true]\n[axes]\nsize = [1, 2]\n'
        'threads = [1, 8]\n[servers.one]\ncommand = "serve {port} {threads}"\n'
        '[servers.two]\ncommand = "serve {port}"\nneeds = ["serve"]\n',
    )
    one = [case for case in plan.cases if case.server == "one"]
    two = [case for case in plan.cases if case.server == "two"]
    assert (len(one), len(two)) == (2 * 2 * 2 * 2, 2 * 2 * 2)
    assert {plan.load_of(case).path for case in one} == {"/report?size=1", "/report?size=2"}
    assert {plan.load_of(case).keep_alive for case in two} == {True, False}
    assert all(not case.python and case.get("threads") is None for case in two)  # an executable needs no Python
    assert {case.load for case in one} == {case.load for case in two}  # both servers get the same loads
    assert not plan.ceilings


FULL = (
    '[load]\ntool = "ab"\nrequests = 9\nusers = [5, 25]\n[axes]\nsize = [1, 2]\nkind = ["a"]\n'
    '[servers.one]\ncommand = "serve {port} {size} {kind}"\n[servers.two]\ncommand = "serve {port}"\n'
    '[servers.top]\ncommand = "serve {port}"\nceiling = true\n'
)
QUICK = '[quick]\nservers = ["two"]\n[quick.load]\ntime = "2s"\nusers = 5\n[quick.axes]\nsize = [1]\n'


def test_axis_values_replace_placeholders_in_the_path_and_the_command(tmp_path: Path) -> None:
    text = '[load]\npath = "/{size}"\n[axes]\nsize = [1, 2]\n[servers.one]\ncommand = "serve {port} {size}"'
    plan = plan_in(tmp_path, text)
    assert [(case.get("size"), plan.load_of(case).path) for case in plan.cases] == [(1, "/1"), (2, "/2")]


def test_commands_run_in_the_directory_set_by_the_suite(tmp_path: Path) -> None:
    (tmp_path / "perf").mkdir()
    (tmp_path / "order.json").write_text('{"items": [1]}\n')
    text = 'folder = ".."\n[load]\nbody_file = "order.json"\n[servers.one]\ncommand = "serve {port} {suite}"'
    plan = plan_in(tmp_path / "perf", text)
    start, request = start_in(plan, "one"), plan.suite.load.request
    assert (start.folder, start.words[-1]) == (tmp_path, str(tmp_path))
    assert (request.method, request.body) == ("POST", b'{"items": [1]}')


def test_a_byte_order_mark_in_a_suite_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_bytes(b"\xef\xbb\xbf" + SERVER.encode())
    assert read_suite(tmp_path / "shop.toml").targets


def test_the_quick_version_replaces_only_the_keys_that_it_contains(tmp_path: Path) -> None:
    path = suite_in(tmp_path, FULL + QUICK)
    full, quick = read_suite(path), read_suite(path, quick=True)
    assert full == dataclasses.replace(read_suite(suite_in(tmp_path, FULL)), source=str(path))
    assert (full.load.requests, full.load.time_s, full.axes["users"]) == (9, None, (5, 25))
    assert quick.load == dataclasses.replace(full.load, requests=None, time_s=2.0)
    assert quick.axes == {**full.axes, "size": (1,), "users": (5,)}
    assert [target.name for target in full.targets] == ["one", "two"]
    assert [target.name for target in quick.targets] == ["two"]
    assert quick.ceiling == full.ceiling
    assert quick.source == f"{path}, quick version"


def test_placeholders_in_files_and_the_environment_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "serve.conf").write_text("http { listen {host}:{port}; root {suite}; pid {folder}/pid; {unknown} }")
    server = "[servers.one]\ncommand = \"serve -c serve.conf 'a b' {size}\"\n"
    plan = plan_in(tmp_path, f'environment = {{ SIZE = "{{size}}" }}\n[axes]\nsize = [3]\n{server}')
    with starting(plan, "one") as start:
        serve, option, file, text, size = start.words
        assert (serve, option, text, size) == ("serve", "-c", "a b", "3")
        folder = Path(file).parent
        expected = f"http {{ listen 127.0.0.1:8123; root {tmp_path}; pid {folder}/pid; {{unknown}} }}"
        assert Path(file).read_text() == expected
        assert start.environment["SIZE"] == "3"
        assert start.folder == tmp_path
    assert not folder.exists()


def test_the_ceiling_of_a_suite_with_a_task_is_the_task_without_a_server(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, SERVER + '[load]\ntask = ["primes", "digest"]\npath = "/{task}"\n')
    assert {plan.load_of(case).path for case in plan.cases} == {"/primes", "/digest"}
    assert [case.server for case in plan.ceilings] == ["bare", "bare"]


def test_selecting_one_server_of_a_suite_keeps_the_ceiling() -> None:
    suite = suite_of([str(TESTS / "suites/shop") + ":plain"])
    assert [target.name for target in suite.targets] == ["plain"]
    assert suite.ceiling is not None
    assert suite.ceiling.name == "top"
    assert (suite.ping, suite.ready_within_s) == (Ping("/health"), 10.0)


def test_urls_of_running_servers_are_converted_to_a_suite() -> None:
    suite = suite_of(["http://127.0.0.1:8000/a?b=c", "http://127.0.0.1:8001/a?b=c"], TargetOptions("/health"))
    assert [target.url for target in suite.targets] == ["http://127.0.0.1:8000", "http://127.0.0.1:8001"]
    assert not any(target.command for target in suite.targets)
    assert suite.axes["path"] == ("/a?b=c",)
    assert (suite.ping, suite.ceiling) == (Ping("/health"), None)


def test_expect_body_any_selects_the_rule_that_accepts_every_body(tmp_path: Path) -> None:
    suite = read_suite(suite_in(tmp_path, SERVER + '[expect]\nstatus = 201\nbody = "any"\n'))
    assert (suite.expect.status, suite.expect.rule.mode) == (201, ANY)
    assert suite.ping is None


@pytest.mark.parametrize("path", sorted((ROOT / "suites").glob("*/suite.toml")), ids=lambda path: path.parent.name)
def test_bundled_suites_are_valid(path: Path) -> None:
    assert read_suite(path).targets


SCALARS = st.one_of(any_text(max_size=20), st.integers(-5, 10**9), st.floats(), st.booleans())
ANYTHING = st.recursive(
    SCALARS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(any_text(max_size=8), inside, max_size=3),
    max_leaves=6,
)
TABLES = (keys.SuiteTable, keys.LoadTable, keys.ServerTable, keys.ExpectTable)
KNOWN = st.sampled_from(sorted({key for table in TABLES for key in table.__struct_fields__}))
TABLE = st.dictionaries(KNOWN, st.one_of(ANYTHING, st.dictionaries(KNOWN, ANYTHING, max_size=4)), max_size=5)


@given(suite_table=TABLE, server=st.dictionaries(KNOWN, ANYTHING, max_size=4))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_suite_file_is_accepted_or_rejected_without_a_crash(
    suite_table: dict, server: dict, tmp_path: Path
) -> None:
    one = {"command": "serve {port}", **server}
    suite_table = {
        **suite_table,
        "servers": {"one": one, **(suite_table["servers"] if isinstance(suite_table.get("servers"), dict) else {})},
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(suite_file, "_parsed", lambda _path: suite_table)
        with contextlib.suppress(BadInputError):
            assert read_suite(tmp_path / "shop.toml").targets
        with contextlib.suppress(BadInputError):
            assert read_suite(tmp_path / "shop.toml", quick=True).targets


PATHS = (
    LOAD
    + """
path = PATHS
[ping]
path = "/ping?a=${UNIT_TOKEN}&b=${unit_lower}"
[drain]
path = "/queue?a=${UNIT_TOKEN}"
json = "n"
[axes]
key = ["hot", "cold"]
"""
)


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIT_TOKEN", "unit/token")
    monkeypatch.setenv("unit_lower", "lower")


def test_secrets_in_paths_are_sent_but_do_not_identify_a_case(tmp_path: Path, token: None) -> None:
    path = suite_in(
        tmp_path,
        PATHS.replace("PATHS", '"/a?key={key}&session=1234&who=${UNIT_TOKEN}&b=$${UNIT_TOKEN}&c=${unit_lower}"'),
    )
    suite = suite_of([str(path)])
    plan = make_plan(suite, {}, time_s=None, rounds=1)
    for case, key in zip(plan.cases, ("hot", "cold"), strict=True):
        assert case.get("path") == f"/a?key={key}&session=***&who=${{UNIT_TOKEN}}&b=$${{UNIT_TOKEN}}&c=${{unit_lower}}"
        assert plan.load_of(case).path == f"/a?key={key}&session=1234&who=unit%2Ftoken&b=${{UNIT_TOKEN}}&c=lower"
    assert suite.ping is not None
    assert suite.ping.path == "/ping?a=unit%2Ftoken&b=lower"
    assert suite.backlog is not None
    assert suite.backlog.path == "/queue?a=unit%2Ftoken"


def test_secrets_in_the_paths_of_a_requests_file_and_of_a_url_are_sent(tmp_path: Path, token: None) -> None:
    (tmp_path / "requests.jsonl").write_text('{"path": "/a?who=${UNIT_TOKEN}"}')
    (mixed,) = suite_of(
        [str(suite_in(tmp_path, PING + LOAD.removeprefix(SERVER) + 'requests_file = "requests.jsonl"'))]
    ).load.mix
    assert mixed.path == "/a?who=unit%2Ftoken"
    plan = make_plan(suite_of(["http://127.0.0.1:1/a?who=${UNIT_TOKEN}&pwd=1234"]), {}, time_s=None, rounds=1)
    assert plan.cases[0].get("path") == "/a?who=${UNIT_TOKEN}&pwd=***"
    assert plan.load_of(plan.cases[0]).path == "/a?who=unit%2Ftoken&pwd=1234"


def test_a_password_in_the_value_of_an_axis_reaches_the_server_but_identifies_no_case(tmp_path: Path) -> None:
    text = '[servers.one]\ncommand = "serve {port} {db}"\n[axes]\ndb = ["redis://ann:1234@a", "redis://ann:1234@b"]'
    plan = make_plan(suite_of([str(suite_in(tmp_path, text))]), {}, time_s=None, rounds=1)
    assert [case.get("db") for case in plan.cases] == ["redis://ann:***@a", "redis://ann:***@b"]
    assert suite_command(plan, plan.cases[1], ["serve", "{db}"]).words == ["serve", "redis://ann:1234@b"]


def test_values_that_differ_only_in_a_secret_are_rejected_with_its_name(tmp_path: Path, token: None) -> None:
    suite = suite_of(
        [str(suite_in(tmp_path, PATHS.replace("PATHS", '["/a?pwd=1234&b={key}", "/a?pwd=5678&b={key}"]')))]
    )
    with pytest.raises(
        BadInputError, match=r"axis path are /a\?pwd=\*\*\*&b=hot and differ only in pwd, which is masked"
    ):
        make_plan(suite, {}, time_s=None, rounds=1)


@pytest.mark.parametrize("key", ["load", "ping", "drain", "servers.other"])
def test_a_variable_in_a_path_that_is_not_set_is_an_error_that_names_the_key(key: str, tmp_path: Path) -> None:
    tables = {"load": LOAD, "ping": PING, "drain": SERVER + '[drain]\njson = "n"\n', "servers.other": SERVER + OTHER}
    path = suite_in(tmp_path, tables[key] + 'path = "/a?b=${UNIT_UNSET}"')
    with pytest.raises(
        BadInputError, match=rf"{key}\.path names the environment variable UNIT_UNSET, which is not set"
    ):
        read_suite(path)


@pytest.mark.parametrize("option", ["--path", "--ping"])
def test_a_variable_in_a_path_of_the_command_line_that_is_not_set_is_an_error(option: str, run_cli) -> None:
    ran = run_cli("run", "shop:app", option, "/a?token=${UNIT_UNSET}")
    assert ran.returncode == 2
    assert f"{option} names the environment variable UNIT_UNSET, which is not set" in ran.stderr
    ran = run_cli("run", "http://127.0.0.1:1/a?token=${UNIT_UNSET}")
    assert "the URL of 127.0.0.1:1 names the environment variable UNIT_UNSET" in ran.stderr


def test_the_environment_of_the_suite_may_pass_the_port(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text('environment = { PORT = "{port}" }\n[servers.one]\ncommand = "serve"\n')
    (target,) = read_suite(tmp_path / "shop.toml").targets
    assert target.environment == (("PORT", "{port}"),)
