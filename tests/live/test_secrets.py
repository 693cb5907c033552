"""Secrets of a suite reach the server, and appear in no result, page, message or command line."""

import contextlib
import gzip
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from command import CommandResult, invoke
from conftest import TESTS
from load_tool_checks import needed, skip_version_lookup

from under_siege.record.result import load

TOKEN, PASSWORD, SHOP, KEY = "t0ken-of-the-test", "passw0rd-of-the-test", "shop-0f-the-test", "key-in-the-suite"
WHO, SESSION = "wh0/is+it & why", "session-0f-the-suite"
VARIABLES = {"TOKEN": TOKEN, "PASSWORD": PASSWORD, "SHOP": SHOP, "WHO": WHO}
SECRETS = (TOKEN, PASSWORD, SHOP, KEY, WHO, quote(WHO, safe=""), SESSION)
PATH = f"/greet?who={quote(WHO, safe='')}&session={SESSION}"
HEADERS = f"Authorization: Bearer {TOKEN}; X-Shop: shop {SHOP}; X-Api-Key: {KEY}"
RIGHT = f'path: {PATH}; {HEADERS}; body: {{"password": "{PASSWORD}"}}'
TOOLS = ["siege", "wrk", "locust", "stressor"]


@pytest.fixture
def suite(tmp_path: Path, undrawn: None) -> Path:
    shutil.copytree(TESTS / "suites/secrets", tmp_path / "shop")
    return tmp_path / "shop/suite.toml"


@contextlib.contextmanager
def watching_processes() -> Iterator[set[bytes]]:
    """Collect the command lines of all processes of this machine."""
    seen, stop = set[bytes](), threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    seen.add(path.read_bytes())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def run(suite: Path, tool: str, *more: str) -> tuple[CommandResult, set[bytes]]:
    suite.write_text(suite.read_text().replace("TOOL", tool))
    words = ("run", "shop", "--rounds", "1", "--time", "1s", "--out", "r.json", "--html", "page.html", *more)
    with pytest.MonkeyPatch.context() as patched, watching_processes() as seen:
        skip_version_lookup(patched)
        ran = invoke(*words, folder=suite.parents[1], env=VARIABLES)
    return ran, seen


def check_nothing_is_shown(folder: Path, ran: CommandResult, seen: set[bytes]) -> None:
    texts = {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
    texts |= {"stdout": ran.stdout, "stderr": ran.stderr, "processes": b"\n".join(seen).decode(errors="replace")}
    assert [(name, secret) for name, text in texts.items() for secret in SECRETS if secret in text] == []


@pytest.mark.parametrize("tool", TOOLS)
def test_secrets_reach_the_server_and_are_shown_nowhere(tool: str, suite: Path, tmp_path: Path) -> None:
    needed(tool)
    log = suite.with_name("log")
    app = suite.with_name("app.py")
    app.write_text(app.read_text().replace("file=sys.stderr", "file=open('log', 'a')"))
    ran, seen = run(suite, tool)
    assert ran.returncode in (0, 3), ran.stdout + ran.stderr
    requests = log.read_text().splitlines()
    assert set(requests) == {RIGHT}
    assert any(tool.encode() in line for line in seen)  # otherwise, the test proves nothing
    assert {"r.json", "page.html"} <= {path.name for path in tmp_path.iterdir()}
    (record,) = load(tmp_path / "r.json").records
    assert record.values["path"] == "/greet?who=${WHO}&session=***"
    check_nothing_is_shown(tmp_path, ran, seen)


def test_secrets_that_a_server_returns_or_prints_are_masked(suite: Path, tmp_path: Path) -> None:
    suite.write_text(f"{suite.read_text()}\n[expect]\npattern = 'other'\n")
    ran, seen = run(suite, "siege")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    (record,) = load(tmp_path / "r.json").records
    assert "Authorization: ***" in record.server_said
    assert "Authorization: ***" in record.failure.message
    check_nothing_is_shown(tmp_path, ran, seen)


def test_ab_is_rejected_because_its_arguments_are_visible(suite: Path) -> None:
    ran, _ = run(suite, "ab")
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].endswith(
        "ab gets headers as arguments, which every user of this machine can see: Authorization, X-Shop, X-Api-Key; "
        "use siege, wrk or locust"
    )


def test_a_variable_that_is_not_set_is_a_one_line_error(suite: Path, tmp_path: Path) -> None:
    suite.write_text(suite.read_text().replace("TOOL", "siege").replace("${SHOP}", "${NOT_SET_ANYWHERE}"))
    ran = invoke("run", "shop", folder=tmp_path, env=VARIABLES)
    assert ran.returncode == 2
    assert "load.headers.X-Shop names the environment variable NOT_SET_ANYWHERE, which is not set" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("trace", "shop"),
        ("capacity", "shop", "--time", "5s", "--out", "r.json", "--html", "page.html"),
        ("drill", "shop", "--fault", "leave", "--out", "r.json", "--html", "page.html"),
    ],
)
def test_commands_that_send_requests_themselves_show_no_secrets(
    words: tuple[str, ...], suite: Path, tmp_path: Path
) -> None:
    suite.write_text(suite.read_text().replace("TOOL", "siege"))
    log, app = suite.with_name("log"), suite.with_name("app.py")
    app.write_text(app.read_text().replace("file=sys.stderr", "file=open('log', 'a')"))
    with watching_processes() as seen:
        ran = invoke(*words, folder=tmp_path, env=VARIABLES)
    assert ran.returncode in (0, 1, 3), ran.stderr
    assert RIGHT in log.read_text()
    check_nothing_is_shown(tmp_path, ran, seen)


def test_report_masks_results_of_earlier_versions(tmp_path: Path, undrawn: None) -> None:
    result = json.loads(gzip.decompress((TESTS.parent / "results/orders.json.gz").read_bytes()))
    for record in result["records"]:
        record["tool_command"][1:1] = ["-H", f"AUTHORIZATION: Bearer {TOKEN}", f"-HX-Api-Key:{KEY}"]
        record["server_said"] = f"cookie: shop={SHOP}; user=1"
    result["records"][0]["failure"] = {"code": "wrong_answer", "message": f'200 with \'{{"password_key": "{PASSWORD}"'}
    (tmp_path / "old.json").write_text(json.dumps(result))
    for output_format in ("table", "markdown", "csv", "json", "html"):
        ran = invoke("report", "old.json", "--format", output_format, folder=tmp_path)
        assert ran.returncode in (0, 1, 3), ran.stderr
        assert [secret for secret in SECRETS if secret in ran.stdout] == []
