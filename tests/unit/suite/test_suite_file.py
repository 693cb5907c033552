"""Suite files: valid files define the cases of a run, and invalid files cause one-line errors."""

import contextlib
import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from any_text import any_text
from conftest import ROOT, TESTS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import BadInputError
from under_siege.load.request import ANY, Ping
from under_siege.measure.plan import make_plan
from under_siege.measure.start_command import start_of
from under_siege.suite import keys, suite_file
from under_siege.suite.selection import suite_of
from under_siege.suite.suite_file import read_suite
from under_siege.suite.suite_from_application import TargetOptions

SERVER = '[servers.one]\ncommand = "serve {port}"\n'
OTHER = '[servers.other]\ncommand = "serve {port}"\n'
LOAD, EXPECT, PING, AXES = SERVER + "[load]\n", SERVER + "[expect]\n", SERVER + "[ping]\n", SERVER + "[axes]\n"
RunCli = Callable[..., subprocess.CompletedProcess[str]]


def suite_in(folder: Path, text: str) -> Path:
    path = folder / "shop.toml"
    path.write_text(text)
    return path


BAD = [
    ("[servers", "is not TOML"),
    (SERVER + SERVER, "is not TOML"),
    (LOAD + "users = " + "9" * 5000, "is not TOML: Exceeds the limit"),
    ('title = "x"', "shop.toml: no server: expected a table such as [servers.uvicorn]"),
    ('folder = "gone"\n' + SERVER, "folder = 'gone': expected a directory, relative to the suite file"),
    # unknown keys, and values of a wrong type or out of range
    ("titel = 'x'\n" + SERVER, "shop.toml: unknown key 'titel' (did you mean 'title'?)"),
    (LOAD + "user = 3", "shop.toml: load has an unknown key 'user' (did you mean 'users'?)"),
    (SERVER + 'requirement = ["x"]', "servers.one has an unknown key 'requirement' (did you mean 'requirements'"),
    (SERVER + "[quick]\nrequests = 5", "quick has an unknown key 'requests'"),
    (SERVER + '[require]\ntwo = ["p99 < 1s"]', "require has an unknown key 'two': expected one of all, one"),
    ('servers = "x"', "servers = 'x': expected a table"),
    (SERVER + "headers = 3", "servers.one.headers = 3: expected a table"),
    (LOAD + "users = []", "load.users = []: expected a list of at least one value"),
    (LOAD + "users = [0]", "load.users[0] = 0: expected a whole number >= 1"),
    (LOAD + "users = true", "load.users = True: expected a whole number or a list"),
    (LOAD + "users = " + "9" * 4000, "load.users = 99999999999999"),
    (LOAD + "own_network = 5", "load.own_network = 5: expected a whole number >= 100"),
    (EXPECT + "status = 2000", "expect.status = 2000: expected a whole number <= 599"),
    (AXES + "workers = []", "axes.workers = []: expected a list of at least one value"),
    # texts
    ('title = " "\n' + SERVER, "title = ' ': expected a string with visible characters"),
    ('[servers.one]\ncommand = "serve\\u0000 {port}"', "serve\\x00 {port}': expected a string with visible"),
    ('[servers."a b"]\ncommand = "serve {port}"', "expected names of up to 60 characters: letters"),
    (SERVER + 'environment = { "A=B" = "x" }', "servers.one.environment = {'A=B': 'x'}: expected names that contain"),
    (LOAD + 'tool = "jmeter"', "load.tool = 'jmeter': expected one of siege, "),
    (LOAD + 'method = "FETCH"', "load.method = 'FETCH': expected one of GET, POST"),
    (EXPECT + 'body = "alike"', "expect.body = 'alike': expected one of same, json, any"),
    # times
    (LOAD + 'time = "soon"', "load.time = 'soon': expected seconds, or a time such"),
    (LOAD + 'time = "2s"\nrequests = 5', "load: time and requests can't be combined; use only one"),
    (SERVER + "ready_within = 0", "servers.one.ready_within = 0: expected seconds"),
    (SERVER + 'warm_up = "soon"', "servers.one.warm_up = 'soon': expected seconds"),
    (SERVER + '[drain]\npath = "/metrics"', "drain: path and json must be set together"),
    # commands
    ("[servers.one]\ntitle = 'x'", "servers.one: expected a url, or a command such as"),
    ('[servers.one]\ncommand = "serve"', "servers.one.command = 'serve' without {port}"),
    ("[servers.one]\ncommand = '\"\" {port}'", "servers.one.command = '\"\" {port}': expected a program and its"),
    ('[servers.one]\ncommand = "serve \'x {port}"', 'servers.one.command = "serve \'x {port}": expected words as in'),
    ('[servers.one]\ncommand = "serve {port} {size}"', "servers.one contains the unknown placeholder {size}"),
    (SERVER + 'prepare = "make {size}"', "servers.one contains the unknown placeholder {size}"),
    ('prepare = "make {port}"\n' + SERVER, "prepare = 'make {port}' has the placeholder {port}: expected one of suite"),
    (EXPECT + 'check = "look {port}"', "expect.check = 'look {port}' has the placeholder {port}: expected one of url,"),
    (SERVER + 'requirements = ["uvicorn = 3"]', "one.requirements = 'uvicorn = 3': expected a requirement such"),
    (SERVER + 'requirements = ["-r gone.txt"]', "expected a file 'gone.txt' in the folder"),
    # axes
    (AXES + "workers = [1, 2]", "axes.workers: no server uses it"),
    (AXES + "port = [1]", "axes.port: expected a lower-case name"),
    (SERVER.replace("}", "} {workers}") + '[axes]\nworkers = ["x"]', "axes.workers = ['x']: expected whole numbers"),
    (SERVER.replace("}", "} {a}") + '[axes]\na = ["{port}"]', "a = ['{port}']: expected {port} in the command"),
    # paths and addresses
    (LOAD + 'path = "report"', "load.path = 'report': expected a path that begins with /"),
    (LOAD + 'path = "/caf\u00e9"', "load.path = '/caf\u00e9': expected a path that begins with /"),
    (LOAD + 'path = "/a/../b"', "load.path = '/a/../b': expected a path that begins with /"),
    (LOAD + 'path = "/{size}"', "load.path = '/{size}': expected {size} to be an axis"),
    (LOAD + 'path = "/{name}"\n[axes]\nname = ["a", "b c"]', "path = '/b c' where name is 'b c': expected a path"),
    (PING + 'path = "/{size}"', "ping.path = '/{size}': expected a path that begins with /"),
    (SERVER + 'path = "report"', "servers.one.path = 'report': expected a path that begins"),
    (SERVER + 'path = "/a"\n[load]\npath = ["/a", "/b"]', "servers.one.path needs a single path under [load]"),
    (OTHER + SERVER + 'path = "/a"\nceiling = true', "servers.one: a ceiling gets the same requests"),
    ('[servers.one]\nurl = "https://x"', "servers.one.url = 'https://x': expected a URL such as http://127.0.0.1"),
    ("[servers.one]\nurl = 'http://127.0.0.1:99999'", "url = 'http://127.0.0.1:99999': expected a URL such"),
    ("[servers.one]\nurl = 'http://me:pw@127.0.0.1'", "expected a URL such as http://127.0.0.1:8000"),
    # ceilings
    (SERVER + "ceiling = true\n" + OTHER + "ceiling = true", "one and other are ceilings: expected one"),
    (SERVER + "ceiling = true", "no server besides the ceiling one: expected at least one"),
    # requests
    (LOAD + 'files = "x"\ntool = "wrk"', "load.path = '/': expected {file} in the path"),
    (LOAD + 'path = "/{file}"', "load.path = '/{file}': expected {file} in the path"),
    (LOAD + 'path = "/{file}"\nfiles = "x"\ntool = "wrk"', "load.files needs a ping that shows when a server is ready"),
    (LOAD + 'path = "/{file}"\nfiles = "x"', "load: files is set, but siege requests only one path: expected tool ="),
    (LOAD + 'tool = "locust"\nscript = "gone.py"', "gone.py' can't be read: No such file"),
    (LOAD + 'body_file = "gone.json"', "gone.json' can't be read: No such"),
    (LOAD + 'body = "x"\nbody_file = "y"', "load: body and body_file can't be combined"),
    (LOAD + 'method = "GET"\nbody = "x"', "load.body: a GET has no body: expected method ="),
    (LOAD + "body = { day = 2026-01-01 }", "values that JSON supports; put dates and times"),
    (
        LOAD + 'headers = { X-Shop = "7\\r\\nX-Admin: 1" }',
        "load.headers.X-Shop = '7\\r\\nX-Admin: 1': expected a string without",
    ),
    (LOAD + "headers = { Content-Length = 3 }", "load.headers.Content-Length: set by the load tool; remove it"),
    # correct responses
    (EXPECT + 'file = "gone.txt"', "can't be read: No such file"),
    (EXPECT + 'file = "/dev/zero"', "can't be read: it is larger than 64,000,000"),
    (EXPECT + 'ignore = ["id"]\njson = { a = 1 }', "expect.json and expect.ignore can't be combined"),
    (EXPECT + 'json = { "a..b" = 1 }', "expect.json = 'a..b': expected a path such as items.0"),
    (EXPECT + 'ignore = [".id"]', "expect.ignore = '.id': expected a path such as"),
    (EXPECT + 'pattern = "total: (\\\\d+"', "expect.pattern = 'total: (\\\\d+': expected a regular"),
    # the quick profile
    ("quick = 3\n" + SERVER, "quick = 3: expected a table"),
    (SERVER + "[quick]\nload = 3", "quick.load = 3: expected a table"),
    (SERVER + "[quick.load]\nuser = 3", "quick profile: load has an unknown key 'user'"),
    (SERVER + "[quick.axes]\nwidth = [3]", "quick profile: axes.width: no server uses it"),
    (SERVER + "[quick]\nservers = ['two']", "no server 'two' to compare: expected one of one"),
    (SERVER + '[quick.load]\ntime = "2s"\nrequests = 3', "load: time and requests can't be combined"),
]


@pytest.mark.parametrize(("text", "why"), BAD, ids=[why[:40] for _, why in BAD])
def test_an_invalid_suite_causes_a_one_line_error(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as error:
        read_suite(suite_in(tmp_path, text))
    assert why in str(error.value)
    assert str(error.value).isprintable()


def test_an_invalid_suite_ends_the_run_with_exit_code_2_before_anything_starts(tmp_path: Path, run_cli: RunCli) -> None:
    suite_in(tmp_path, LOAD + "users = [0]")
    for words in (["run", "shop.toml"], ["run", "shop.toml", "--quick"]):
        ran = run_cli(*words)
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
        assert ran.stderr.startswith("bench.py: shop.toml: load.users[0] = 0: expected")
    assert not (tmp_path / "results").exists()


def test_too_many_combinations_of_axes_cause_an_error(tmp_path: Path, run_cli: RunCli) -> None:
    axes = "".join(f"{name} = {list(range(200))}\n" for name in "ab")
    suite_in(tmp_path, f'[servers.one]\ncommand = "serve {{port}} {{a}} {{b}}"\n[axes]\n{axes}')
    ran = run_cli("run", "shop.toml")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert "the axes have 40,000 combinations: expected at most 10,000" in ran.stderr


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


MIXED = {
    ("shop.toml", "2"): "can't be compared with",
    ("shop.toml", "http://127.0.0.1:1/"): "can't be compared with",
    ("shop.toml:two",): "no server 'two' to compare: expected one of one",
    ("shop.toml", "--workers", "2"): "no server of 'shop.toml' depends on --workers; use one of --users",
    ("shop.toml", "--task", "primes"): "no server of 'shop.toml' depends on --task",
    ("shop.toml", "--quick"): "shop.toml: no quick profile: expected a table such as [quick.load]",
    ("2", "--quick"): "--quick needs a suite with a quick profile",
    ("http://127.0.0.1:1/a", "--quick"): "--quick needs a suite with a quick profile",
    ("shop.toml", "--ping", "/x"): "--ping needs an application, such as shop.main:app, or the URL of a server",
    ("gone.toml",): "can't be read: No such file",
    (".",): "'.' has no suite.toml; create it with python bench.py init",
    ("https://127.0.0.1/",): "can't be requested",
    ("http://127.0.0.1:1/a", "http://127.0.0.1:2/b"): "are different paths",
    ("http://127.0.0.1:2/a", "http://127.0.0.1:1/a", "http://127.0.0.1:1/a"): "1:1/a is named twice",
    ("http://127.0.0.1:1/a", "--ping", "x"): "--ping = 'x': expected a path that begins with /",
    ("http://127.0.0.1:99999/",): "can't be requested",
    ("http://:80/",): "can't be requested",
    ("http://me:secret@127.0.0.1/",): "can't be requested",
    ("http://127.0.0.1/caf\u00e9",): "can't be requested",
}


@pytest.mark.parametrize("words", MIXED, ids=" ".join)
def test_invalid_arguments_of_run_cause_a_one_line_error(
    words: tuple[str, ...], tmp_path: Path, run_cli: RunCli
) -> None:
    suite_in(tmp_path, SERVER)
    ran = run_cli("run", *words)
    assert ran.returncode == 2, ran.stderr
    assert MIXED[words] in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_list_of_values_in_a_suite_becomes_an_axis(tmp_path: Path) -> None:
    suite = read_suite(
        suite_in(
            tmp_path,
            '[load]\nusers = [5, 25]\npath = "/report?size={size}"\nkeep_alive = [false, true]\n[axes]\nsize = [1, 2]\n'
            'threads = [1, 8]\n[servers.one]\ncommand = "serve {port} {threads}"\n'
            '[servers.two]\ncommand = "serve {port}"\nneeds = ["serve"]\n',
        )
    )
    plan = make_plan(suite, {"python": ["python3"]}, time_s=None, rounds=1)
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
    plan = make_plan(read_suite(suite_in(tmp_path, text)), {"python": ["python3"]}, time_s=None, rounds=1)
    assert [(case.get("size"), plan.load_of(case).path) for case in plan.cases] == [(1, "/1"), (2, "/2")]


def test_commands_run_in_the_directory_set_by_the_suite(tmp_path: Path) -> None:
    (tmp_path / "perf").mkdir()
    (tmp_path / "order.json").write_text('{"items": [1]}\n')
    text = 'folder = ".."\n[load]\nbody_file = "order.json"\n[servers.one]\ncommand = "serve {port} {suite}"'
    suite = read_suite(suite_in(tmp_path / "perf", text))
    plan = make_plan(suite, {"python": ["python3"]}, time_s=None, rounds=1)
    with start_of(plan, plan.cases[0], 8123, {}) as start:
        assert (start.folder, start.words[-1]) == (tmp_path, str(tmp_path))
    assert (suite.load.request.method, suite.load.request.body) == ("POST", b'{"items": [1]}')


def test_a_byte_order_mark_in_a_suite_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_bytes(b"\xef\xbb\xbf" + SERVER.encode())
    assert read_suite(tmp_path / "shop.toml").targets


def test_the_quick_profile_replaces_only_the_keys_that_it_contains(tmp_path: Path) -> None:
    path = suite_in(tmp_path, FULL + QUICK)
    full, quick = read_suite(path), read_suite(path, quick=True)
    assert full == dataclasses.replace(read_suite(suite_in(tmp_path, FULL)), source=str(path))
    assert (full.load.requests, full.load.time_s, full.axes["users"]) == (9, None, (5, 25))
    assert quick.load == dataclasses.replace(full.load, requests=None, time_s=2.0)
    assert quick.axes == {**full.axes, "size": (1,), "users": (5,)}
    assert [target.name for target in full.targets] == ["one", "two"]
    assert [target.name for target in quick.targets] == ["two"]
    assert quick.ceiling == full.ceiling
    assert quick.source == f"{path}, quick profile"


def test_placeholders_in_files_and_the_environment_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "serve.conf").write_text("http { listen {host}:{port}; root {suite}; pid {folder}/pid; {unknown} }")
    suite = read_suite(
        suite_in(
            tmp_path,
            'environment = { SIZE = "{size}" }\n[axes]\nsize = [3]\n'
            "[servers.one]\ncommand = \"serve -c serve.conf 'a b' {size}\"\n",
        )
    )
    plan = make_plan(suite, {"python": ["python3"]}, time_s=None, rounds=1)
    with start_of(plan, plan.cases[0], 8123, {}) as start:
        serve, option, file, text, size = start.words
        assert (serve, option, text, size) == ("serve", "-c", "a b", "3")
        folder = Path(file).parent
        expected = f"http {{ listen 127.0.0.1:8123; root {tmp_path}; pid {folder}/pid; {{unknown}} }}"
        assert Path(file).read_text() == expected
        assert start.environment["SIZE"] == "3"
        assert start.folder == tmp_path
    assert not folder.exists()


def test_the_ceiling_of_a_suite_with_a_task_is_the_task_without_a_server(tmp_path: Path) -> None:
    path = suite_in(tmp_path, SERVER + '[load]\ntask = ["primes", "digest"]\npath = "/{task}"\n')
    plan = make_plan(read_suite(path), {"python": ["python3"]}, time_s=None, rounds=1)
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


def test_bundled_suites_are_valid() -> None:
    found = sorted((TESTS.parent / "suites").glob("*/suite.toml"))
    assert [path.parent.name for path in found] == [
        "aiohttp",
        "deployments",
        "first",
        "long-task",
        "orders",
        "routes",
        "static",
        "streams",
        "webdav",
        "wsgi",
    ]
    for path in found:
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
    with start_of(plan, plan.cases[1], 1, {}) as start:
        assert start.words == ["serve", "1", "redis://ann:1234@b"]


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
def test_a_variable_in_a_path_of_the_command_line_that_is_not_set_is_an_error(option: str, run_cli: RunCli) -> None:
    ran = run_cli("run", "shop:app", option, "/a?token=${UNIT_UNSET}")
    assert ran.returncode == 2
    assert f"{option} names the environment variable UNIT_UNSET, which is not set" in ran.stderr
    ran = run_cli("run", "http://127.0.0.1:1/a?token=${UNIT_UNSET}")
    assert "the URL of 127.0.0.1:1 names the environment variable UNIT_UNSET" in ran.stderr
