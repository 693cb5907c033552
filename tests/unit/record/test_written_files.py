"""Output files: writes are atomic, links and devices are kept, and a full disk causes a one-line error."""

import contextlib
import gc
import io
import os
import resource
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import CommandResult, invoke
from conftest import ROOT, TESTS
from simulated_record import record_of, result_of

from bench import bench as commands
from common.errors import BadInputError
from under_siege.cli_options import default_result
from under_siege.paths import cache_directory
from under_siege.record.files import UnwritableError, write_atomically
from under_siege.record.result import save
from under_siege.run.view import views
from under_siege.show.output import show_measured
from under_siege.show.progress_bar import ProgressBar

RESULT = str(TESTS / "data" / "result.json")
NEEDS_DEV_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


@contextlib.contextmanager
def file_size_limit(bytes_: int) -> Iterator[None]:
    """Limit the size of files that this process writes; writes then fail, because Python ignores SIGXFSZ."""
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "dont_write_bytecode", True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


@contextlib.contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, stream: str) -> Iterator[None]:
    """Let this stream of the process write to a full disk."""
    with os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", buffering=0) as full:
        monkeypatch.setattr(sys, stream, io.TextIOWrapper(full, write_through=True))
        yield


def is_one_line(ran: CommandResult) -> bool:
    return len(ran.stderr.splitlines()) == 1 and ran.stderr.startswith("bench.py: ")


def test_writing_to_a_symlink_replaces_the_target_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "target").write_text("before")
    (tmp_path / "elsewhere" / "target").chmod(0o600)
    (tmp_path / "link").symlink_to("elsewhere/target")
    (tmp_path / "to the link").symlink_to(tmp_path / "link")
    write_atomically(tmp_path / "to the link", b"after")
    assert (tmp_path / "to the link").is_symlink()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "target").read_text() == "after"
    assert stat.S_IMODE((tmp_path / "elsewhere" / "target").stat().st_mode) == 0o600
    assert len(list(tmp_path.rglob("*"))) == 4


def test_writing_to_a_dangling_symlink_creates_the_target_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    write_atomically(tmp_path / "link", b"after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "after"


def test_a_symlink_to_itself_causes_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(UnwritableError, match=r"link' can't be written: Too many levels of symbolic links$"):
        write_atomically(tmp_path / "link", b"after")


def test_writing_to_a_pipe_does_not_replace_the_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnwritableError, match=r"No such device or address$"):  # the pipe has no reader
        write_atomically(tmp_path / "pipe", b"after")
    read: list[bytes] = []
    with os.fdopen(os.open(tmp_path / "pipe", os.O_RDWR), "rb") as both:
        reader = threading.Thread(target=lambda: read.append(both.read(300_000)))
        reader.start()
        write_atomically(tmp_path / "pipe", b"x" * 300_000)
        reader.join(20)
    assert read == [b"x" * 300_000]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_writing_to_a_device_does_not_replace_the_device(run_cli, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a device")
    os.mknod(tmp_path / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    (tmp_path / "link").symlink_to("null")
    for name in ("null", "link"):
        assert run_cli("report", RESULT, "--out", name).returncode == 0
    assert stat.S_ISCHR((tmp_path / "null").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "null"]


def test_out_dev_fd_1_writes_to_the_descriptor_of_this_process(run_cli, capfd) -> None:
    expected = run_cli("report", RESULT, "--format", "csv").stdout
    assert run_cli("report", RESULT, "--format", "csv", "--out", "/dev/fd/1").stdout == ""
    assert capfd.readouterr().out == expected


def test_a_run_rejects_a_pipe_as_the_file_for_raw_values(run_cli, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    ran = run_cli("run", "2", "--out", "pipe")
    assert (ran.returncode, is_one_line(ran)) == (2, True), ran.stderr
    assert "is a pipe" in ran.stderr


def test_a_report_that_cannot_be_written_leaves_the_existing_file_unchanged(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "page.html").write_text("before")
    save(result_of([]), tmp_path / "r.json")  # an empty result has no charts, which take a second to draw
    with file_size_limit(10):
        ran = invoke("report", "../r.json", "--out", "page.html", "--format", "html", folder=tmp_path / "there")
    assert (ran.returncode, is_one_line(ran)) == (2, True), ran.stderr
    assert "'page.html' can't be written: File too large" in ran.stderr
    assert {path.name: path.read_text() for path in (tmp_path / "there").iterdir()} == {"page.html": "before"}


@NEEDS_DEV_FULL
@pytest.mark.parametrize("format_", ["table", "json"])
def test_writing_a_report_to_a_full_disk_causes_a_one_line_error(
    format_: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with full_disk(monkeypatch, "stdout"), pytest.raises(SystemExit) as ended:
        commands.main(["report", RESULT, "--format", format_], prog_name="bench.py")
    gc.enable()  # the report command disables it
    ran = CommandResult(ended.value.code, "", capsys.readouterr().err)
    assert (ran.returncode, is_one_line(ran)) == (2, True), ran.stderr
    assert "No space left on device" in ran.stderr


@NEEDS_DEV_FULL
def test_a_run_that_cannot_write_to_stdout_prints_the_path_of_the_raw_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with full_disk(monkeypatch, "stdout"), pytest.raises(OSError, match="No space left on device"):
        show_measured(views(result_of([record_of("1_a", 1)])), Path("r.json"), None)
    assert capsys.readouterr().err == "Raw values: r.json\n"


@NEEDS_DEV_FULL
@pytest.mark.usefixtures("undrawn")
def test_a_run_prints_the_table_even_if_the_page_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnwritableError, match="'/dev/full' can't be written: No space left on device"):
        show_measured(views(result_of([record_of("1_a", 1)])), None, Path("/dev/full"))
    shown = capsys.readouterr()
    assert "1_a" in shown.out
    assert shown.err == "Raw values could not be saved.\n"


@NEEDS_DEV_FULL
def test_the_progress_bar_raises_no_error_if_it_cannot_write_to_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    with full_disk(monkeypatch, "stderr"), ProgressBar(1, quiet=False) as progress:
        progress.warn("the disk is full")
        progress.say("really")


@pytest.mark.parametrize("format_", ["table", "timeline", "markdown"])
def test_an_ascii_terminal_gets_replacement_characters(format_: str) -> None:
    ran = invoke("report", str(ROOT / "results" / "sample.json.gz"), "--format", format_, charset="ascii")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.isascii()
    assert "?" in ran.stdout  # in place of other characters


def test_an_error_on_an_ascii_terminal_has_one_line() -> None:
    error = invoke("report", "\u00fc\u202e.json", charset="ascii")
    assert (error.returncode, is_one_line(error)) == (2, True)


def test_the_folder_of_results_exists_only_if_it_has_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with default_result() as path:
        assert path.parent.is_dir()
    assert not Path("results").exists()
    with default_result() as path:
        path.write_text("{}")
    assert path.read_text() == "{}"
    for one in (path, path.parent / "other"):
        one.unlink(missing_ok=True)
    with default_result():
        pass
    assert Path("results").is_dir()  # it was there before


def test_a_folder_that_is_not_writable_causes_an_error_with_the_option_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(dir: Path) -> None:  # noqa: A002 (the name of the parameter)
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(BadInputError, match="Permission denied; use --out FILE"), default_result():
        pass


def test_environments_are_in_the_cache_of_the_user_if_the_repository_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == ROOT
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert cache_directory() == tmp_path / "under-siege"
