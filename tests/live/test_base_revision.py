"""The base of a comparison: a new checkout for each run, with copies of what git ignores, such as databases."""

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sample_applications import empty_venv, write

from common.errors import BadInputError
from under_siege.measure import base_revision, copied_files
from under_siege.measure.base_revision import with_base
from under_siege.suite.suite import Suite, UserApplication
from under_siege.suite.suite_file import read_suite

KILLED = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]: database.execute(statement)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository whose suite was committed and then changed, and that ignores databases."""
    monkeypatch.setattr(base_revision, "DIRECTORY", tmp_path / "cache")
    monkeypatch.setattr(copied_files, "LOCKED_LIMIT_S", 0.1)
    (folder := tmp_path / "shop").mkdir()
    monkeypatch.chdir(folder)
    write(folder, {"suite.toml": '[servers.one]\ncommand = "serve {port}"\n', ".gitignore": "*.db*\ndata\n"})
    commit(folder)
    write(folder, {"suite.toml": '[servers.one]\ncommand = "serve --port {port}"\n'})
    return folder


def commit(folder: Path) -> None:
    for words in ("init -q", "add -A", "-c user.name=a -c user.email=a@b.example commit -q -m one"):
        subprocess.run(["git", "-C", folder, *words.split()], check=True)


def compared(*copied: str) -> Suite:
    return with_base(read_suite(Path("suite.toml")), "HEAD", [sys.executable], [Path(name) for name in copied])


def base_with(*copied: str) -> Path:
    return next(iter(compared(*copied).revisions.values()))


def killed(database: Path, *statements: str) -> None:
    """Let a process execute the statements, and kill it."""
    subprocess.run([sys.executable, "-c", KILLED, database, *statements], check=False)


def contents(database: Path) -> tuple[list[str], list[int]]:
    """Return the result of SQLite's check, and all numbers in the database."""
    with sqlite3.connect(database) as connection:
        (problem,) = connection.execute("pragma integrity_check").fetchone()
        return problem, [number for (number,) in connection.execute("select number from t order by number")]


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the files of a database, without the index of its log, which has locks of readers."""
    return {path.name: path.read_bytes() for path in folder.glob("*.db*") if not path.name.endswith("-shm")}


def test_a_copied_database_has_all_commits_and_nothing_of_an_earlier_run(shop: Path) -> None:
    user = sqlite3.connect(shop / "shop.db", isolation_level=None)
    for statement in ("pragma journal_mode=wal", "create table t(number)", "insert into t values (1)"):
        user.execute(statement)
    base = base_with("shop.db")
    assert contents(base / "shop.db") == ("ok", [1])
    killed(base / "shop.db", "pragma journal_mode=wal", *["insert into t values (3)"] * 99)
    assert (base / "shop.db-wal").stat().st_size
    user.execute("insert into t values (2)")  # so far only in the write-ahead log of the user's server, which runs on
    before = files_in(shop)
    assert base_with("shop.db") == base
    assert {path.name for path in base.glob("shop.db*")} == {"shop.db"}
    assert contents(base / "shop.db") == ("ok", [1, 2])
    assert files_in(shop) == before
    user.close()


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_database_is_copied_as_it_is_after_a_crash(mode: str, shop: Path) -> None:
    statements = ["create table t(number)", "insert into t values (1)", "pragma cache_size=1", "begin immediate"]
    statements += ["insert into t values (2)"] * 5000  # more than the cache, so that a part is in the file
    killed(shop / "shop.db", f"pragma journal_mode={mode}", *statements)
    assert (shop / f"shop.db-{'wal' if mode == 'wal' else 'journal'}").exists()
    assert contents(base_with("shop.db") / "shop.db") == ("ok", [1])


def test_databases_in_a_copied_folder_are_copied_as_databases(shop: Path) -> None:
    write(shop, {"data/notes.txt": "fine", "data/deep/x-wal": "of nobody"})
    database = sqlite3.connect(shop / "data/deep/shop.db", isolation_level=None)
    for statement in ("pragma journal_mode=wal", "create table t(number)", "insert into t values (1)"):
        database.execute(statement)
    base = base_with("data")
    copied = {str(path.relative_to(base / "data")) for path in (base / "data").rglob("*") if path.is_file()}
    assert copied == {"notes.txt", "deep/x-wal", "deep/shop.db"}
    assert contents(base / "data/deep/shop.db") == ("ok", [1])
    database.close()


def test_files_that_belong_to_a_database_are_neither_proposed_nor_copied_alone(shop: Path) -> None:
    killed(shop / "shop.db", "pragma journal_mode=wal", "create table t(number)")
    (shop / "other.db-wal").touch()
    assert set(compared().ignored) == {"shop.db", "other.db-wal"}
    with pytest.raises(BadInputError, match=r"--copy shop.db-wal: it belongs to a database; use --copy shop.db$"):
        compared("shop.db-wal")


def test_a_locked_database_is_reported(shop: Path) -> None:
    user = sqlite3.connect(shop / "shop.db", isolation_level=None)
    user.execute("create table t(number)")
    user.execute("begin exclusive")
    with pytest.raises(BadInputError, match=r"--copy shop.db: can't be copied to the base: another program locks it"):
        compared("shop.db")
    user.close()


def test_each_run_begins_with_a_new_checkout(shop: Path) -> None:
    base = base_with()
    write(base, {"left.db": "of an earlier run", "suite.toml": "changed", "cache/deep.txt": ""})
    assert base_with() == base
    assert {path.name for path in base.iterdir()} == {".git", ".gitignore", "suite.toml"}
    assert (base / "suite.toml").read_text() == '[servers.one]\ncommand = "serve {port}"\n'


def test_a_run_does_not_touch_the_checkout_of_another_run(shop: Path, tmp_path: Path) -> None:
    source = f"""
import sys; from pathlib import Path
from under_siege.measure import base_revision; from under_siege.suite.suite_file import read_suite
base_revision.DIRECTORY = Path({str(tmp_path / "cache")!r})
suite = base_revision.with_base(read_suite(Path("suite.toml")), "HEAD", [sys.executable])
print(next(iter(suite.revisions.values())), flush=True); sys.stdin.read()
"""
    words, path = [sys.executable, "-c", source], {"PYTHONPATH": str(Path(base_revision.__file__).parents[2])}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=path) as other:
        assert other.stdin
        assert other.stdout
        theirs = Path(other.stdout.readline().strip())
        write(theirs, {"in-use.txt": ""})
        mine = base_with()
        assert (theirs / "in-use.txt").exists()
        assert mine != theirs
        assert (mine / "suite.toml").exists()
        other.stdin.close()
    assert base_with() == theirs
    assert not (theirs / "in-use.txt").exists()


def test_nothing_is_copied_through_a_link_of_the_base(shop: Path, tmp_path: Path) -> None:
    write(tmp_path, {"live.db": "live", "elsewhere/notes.txt": "live"})
    (shop / "shop.db").symlink_to(tmp_path / "live.db")
    (shop / "data").symlink_to(tmp_path / "elsewhere")
    subprocess.run(["git", "-C", shop, "add", "--force", "shop.db", "data"], check=True)
    commit(shop)
    for name in ("shop.db", "data"):
        (shop / name).unlink()
    write(shop, {"shop.db": "mine", "data/notes.txt": "mine"})
    base = base_with("shop.db")
    assert (base / "shop.db").read_text() == "mine"
    with pytest.raises(BadInputError, match=r"--copy data: can't be copied to the base: .* is a link out of"):
        compared("data")
    assert (tmp_path / "live.db").read_text() == (tmp_path / "elsewhere/notes.txt").read_text() == "live"


def test_revisions_that_would_import_the_same_installed_copy_are_not_compared(shop: Path) -> None:
    copy = "/usr/lib/python3/dist-packages/shop/main.py"
    suite = replace(read_suite(shop / "suite.toml"), application=UserApplication("shop.main:app", copies=(copy,)))
    with pytest.raises(BadInputError, match=f"--against HEAD: both revisions would import {copy}; install .* editable"):
        with_base(suite, "HEAD", [sys.executable])


@pytest.mark.parametrize("name", ["src/lib/tool.py", "lib/tool.py"])
def test_each_revision_imports_its_own_sources_of_packages_that_were_installed_from_them(
    name: str, shop: Path, tmp_path: Path
) -> None:
    python = empty_venv(tmp_path / "their")
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")
    about, record = packages / "lib-1.dist-info", "lib/tool.py,,\n../../../bin/lib,,\nlib-1.dist-info/RECORD,,\n"
    write(shop, {name: ""})
    write(about, {"direct_url.json": f'{{"url": "{shop.as_uri()}", "dir_info": {{}}}}', "RECORD": record})

    def paths() -> str | None:
        (target,) = with_base(read_suite(shop / "suite.toml"), "HEAD", [str(python)]).targets
        return dict(target.environment).get("PYTHONPATH")

    assert paths() == ("src" if name.startswith("src") else ".")
    write(about, {"RECORD": f"lib/core.so,,\n{record}"})  # only the installed copy is complete
    assert paths() is None
    write(about, {"RECORD": record, "direct_url.json": '{"url": "https://host.example/lib.whl", "archive_info": {}}'})
    assert paths() is None


def test_a_submodule_is_named_among_the_files_that_the_base_lacks(shop: Path, tmp_path: Path) -> None:
    write(library := tmp_path / "library", {"rules.py": "RATE = 2\n"})
    commit(library)
    subprocess.run(
        ["git", "-c", "protocol.file.allow=always", "-C", shop, "submodule", "--quiet", "add", library, "rules"],
        check=True,
    )
    commit(shop)
    suite = compared()
    assert "rules" in suite.ignored
    assert not list((next(iter(suite.revisions.values())) / "rules").iterdir())
    assert (base_with("rules") / "rules" / "rules.py").is_file()
    assert "rules" not in compared("rules").ignored


def test_a_shallow_clone_is_named_as_the_reason_why_a_revision_is_missing(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(shop)
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{shop}", tmp_path / "shallow"], check=True)
    monkeypatch.chdir(tmp_path / "shallow")
    with pytest.raises(BadInputError, match=r"this clone is shallow, .*run: git fetch --unshallow"):
        with_base(read_suite(Path("suite.toml")), "HEAD~1", [sys.executable])


@pytest.mark.usefixtures("shop")
def test_a_missing_git_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInputError, match="git is not installed"):
        compared()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_repository_of_another_user_needs_permission(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(shop))
    for path in (shop, *shop.rglob("*")):
        os.chown(path, 12345, 12345)
    with pytest.raises(BadInputError, match=r"another user owns; .*git config --global --add safe.directory"):
        compared()
