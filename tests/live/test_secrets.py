"""Secrets of a suite reach the server, and appear in no result, page, message or command line.

tests/unit/load/test_load_scripts.py tests the arguments of all load tools.
"""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import CommandResult, invoke
from load_tool_checks import skip_version_lookup
from scripted_server import received, write_suite

from under_siege.record.result import load

TOKEN, PASSWORD, SHOP, KEY = "t0ken-of-the-test", "passw0rd-of-the-test", "shop-0f-the-test", "key-in-the-suite"
SECRETS = (TOKEN, PASSWORD, SHOP, KEY)
LOAD = """users = [2]
body = { password = "${PASSWORD}" }
headers = { Authorization = "Bearer ${TOKEN}", X-Shop = "shop ${SHOP}", X-Api-Key = "key-in-the-suite" }"""
RUN = ("run", "suite.toml", "--rounds", "1", "--time", "1s", "--html", "page.html", "--out", "r.json")


@contextlib.contextmanager
def watching_processes() -> Iterator[set[bytes]]:
    """Collect the command lines of all processes of this machine."""
    seen, stop = set[bytes](), threading.Event()

    def watch() -> None:
        while not stop.wait(0.25):
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


def invoked(folder: Path, *words: str) -> CommandResult:
    """Run a command with the suite in `folder / "shop"`; check that it shows and saves no secret."""
    variables = {"TOKEN": TOKEN, "PASSWORD": PASSWORD, "SHOP": SHOP}
    with pytest.MonkeyPatch.context() as patched, watching_processes() as seen:
        skip_version_lookup(patched)
        ran = invoke(words[0], "shop/suite.toml", *words[2:], folder=folder, env=variables)
    assert seen
    texts = {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
    texts |= {"stdout": ran.stdout, "stderr": ran.stderr, "processes": b"\n".join(seen).decode(errors="replace")}
    assert [(name, secret) for name, text in texts.items() for secret in SECRETS if secret in text] == []
    return ran


def check_received(folder: Path) -> None:
    """Check that each request had all secrets."""
    requests = received(folder)
    assert requests
    for request in requests:
        headers = request["headers"]
        assert (headers["authorization"], headers["x-shop"]) == (f"Bearer {TOKEN}", f"shop {SHOP}")
        assert (headers["x-api-key"], request["body"]) == (KEY, f'{{"password": "{PASSWORD}"}}')


@pytest.fixture
def shop(tmp_path: Path, undrawn: None) -> Path:
    (tmp_path / "shop").mkdir()
    return tmp_path / "shop"


@pytest.mark.parametrize(
    "words",
    [
        RUN,
        ("trace", "suite.toml"),
        ("capacity", "suite.toml", "--time", "2s", "--out", "r.json", "--html", "page.html"),
        ("drill", "suite.toml", "--fault", "leave", "--out", "r.json", "--html", "page.html"),
    ],
    ids=lambda words: words[0],
)
def test_secrets_reach_the_server_and_are_shown_nowhere(words: tuple[str, ...], shop: Path, tmp_path: Path) -> None:
    write_suite(shop, "/queue/0.05/text/right", LOAD)  # a capacity search offers a quick server many requests
    ran = invoked(tmp_path, *words)
    assert ran.returncode in (0, 1, 3), ran.stderr
    check_received(shop)


def test_secrets_that_a_server_returns_or_prints_are_masked(shop: Path, tmp_path: Path) -> None:
    write_suite(shop, "/print/echo", LOAD, "[expect]\npattern = 'other'\n")
    ran = invoked(tmp_path, *RUN)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    (record,) = load(tmp_path / "r.json").records
    assert '"authorization": "***"' in record.server_said
