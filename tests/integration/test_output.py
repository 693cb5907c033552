"""Where results go: files are whole or not there, links stay links, devices stay devices, a full disk is one line."""

import contextlib
import gc
import io
import os
import resource
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Ended, called
from conftest import ROOT, TESTS, WAITING, bench_command
from simulated_record import record_of, result_of

from bench import bench as commands
from under_siege.model.record import save
from under_siege.model.result_file import UnwritableError, write_whole
from under_siege.render import show_all
from under_siege.report.progress_bar import ProgressBar

RESULT = str(TESTS / "data" / "schema-1.json")
QUICK = ["run", "2", "--time", "1s", "--rounds", "1", "--users", "2", "--workers", "1", "--quiet", *WAITING]
NEEDS_DEV_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


def limited(bytes_: int, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs the bench where files can't have more bytes, as on a disk that is full."""
    script = (
        "import os, resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes_}, {bytes_})); os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-c", script, *bench_command(*words)]
    whole = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # or half of a compiled module would be left for all others
    return subprocess.run(command, cwd=cwd, env=whole, capture_output=True, text=True)


@contextlib.contextmanager
def files_of_at_most(bytes_: int) -> Iterator[None]:
    """The same within this process, which Python has told to ignore SIGXFSZ."""
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "dont_write_bytecode", True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


def is_one_line(ran: subprocess.CompletedProcess[str] | Ended) -> bool:
    return len(ran.stderr.splitlines()) == 1 and ran.stderr.startswith("bench.py: ")


def test_what_a_link_leads_to_is_written_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "target").write_text("before")
    (tmp_path / "elsewhere" / "target").chmod(0o600)
    (tmp_path / "link").symlink_to("elsewhere/target")
    (tmp_path / "to the link").symlink_to(tmp_path / "link")
    write_whole(tmp_path / "to the link", b"after")
    assert (tmp_path / "to the link").is_symlink()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "target").read_text() == "after"
    assert stat.S_IMODE((tmp_path / "elsewhere" / "target").stat().st_mode) == 0o600
    assert len(list(tmp_path.rglob("*"))) == 4


def test_where_a_link_dangles_its_target_is_made(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    write_whole(tmp_path / "link", b"after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "after"


def test_a_link_to_itself_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(UnwritableError, match=r"link' can't be written: Too many levels of symbolic links$"):
        write_whole(tmp_path / "link", b"after")


def test_a_pipe_gets_what_is_written_and_stays_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnwritableError, match=r"No such device or address$"):  # nobody reads
        write_whole(tmp_path / "pipe", b"after")
    read: list[bytes] = []
    with os.fdopen(os.open(tmp_path / "pipe", os.O_RDWR), "rb") as both:
        reader = threading.Thread(target=lambda: read.append(both.read(300_000)))
        reader.start()
        write_whole(tmp_path / "pipe", b"x" * 300_000)
        reader.join(20)
    assert read == [b"x" * 300_000]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_device_stays_a_device(asked, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a device")
    os.mknod(tmp_path / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    (tmp_path / "link").symlink_to("null")
    for name in ("null", "link"):
        assert asked("report", RESULT, "--out", name).returncode == 0
    assert stat.S_ISCHR((tmp_path / "null").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "null"]


def test_stdout_under_its_other_name_is_stdout(bench, asked, capfd) -> None:
    expected = asked("report", RESULT, "--format", "csv").stdout
    assert bench("report", RESULT, "--format", "csv", "--out", "/dev/stdout").stdout == expected
    assert asked("report", RESULT, "--format", "csv", "--out", "/dev/fd/1").stdout == ""  # what this process has there
    assert capfd.readouterr().out == expected


def test_a_run_refuses_a_pipe_for_its_raw_values(asked, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    ran = asked(*QUICK, "--out", "pipe")
    assert (ran.returncode, is_one_line(ran)) == (2, True), ran.stderr
    assert "is a pipe; expected a file" in ran.stderr


def test_a_report_that_has_no_room_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "page.html").write_text("before")
    save(result_of([]), tmp_path / "r.json")  # it has no pictures, whose drawing takes a second
    with files_of_at_most(10):
        ran = called("report", "../r.json", "--out", "page.html", "--format", "html", folder=tmp_path / "there")
    assert (ran.returncode, is_one_line(ran)) == (2, True), ran.stderr
    assert "'page.html' can't be written: File too large" in ran.stderr
    assert {path.name: path.read_text() for path in (tmp_path / "there").iterdir()} == {"page.html": "before"}


def test_a_run_without_room_for_its_raw_values_goes_on_says_it_once_and_shows_its_table(tmp_path, monkeypatch) -> None:
    """On a terminal that knows only ASCII."""
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    ran = limited(4000, *QUICK, "--out", "r.json", cwd=tmp_path)
    assert ran.stdout.isascii()
    assert "Traceback" not in ran.stderr
    assert ran.stderr.count("'r.json' can't be written: File too large; the run goes on") == 1
    assert "Raw values could not be saved." in ran.stderr
    assert "2_async" in ran.stdout
    assert not list(tmp_path.iterdir())


@NEEDS_DEV_FULL
def test_a_full_disk_behind_stdout_is_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(bench_command("list"), cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, is_one_line(ran)) == (2, True), ran.stderr
    assert "No space left on device" in ran.stderr


@NEEDS_DEV_FULL
@pytest.mark.parametrize("dress", ["table", "json"])
def test_so_it_is_for_a_report(dress: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Within this process; that nothing is said after it when a process ends: the test before."""
    with os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(full, write_through=True))
        with pytest.raises(SystemExit) as ended:
            commands.main(["report", RESULT, "--format", dress], prog_name="bench.py")
    gc.enable()  # a report does without
    ran = Ended(ended.value.code, "", capsys.readouterr().err)
    assert (ran.returncode, is_one_line(ran)) == (2, True), ran.stderr
    assert "No space left on device" in ran.stderr


@NEEDS_DEV_FULL
def test_a_run_whose_table_has_no_room_says_where_its_raw_values_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were saved before; that the error then is one line: test_a_full_disk_behind_stdout_is_one_line."""
    with os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(full, write_through=True))
        with pytest.raises(OSError, match="No space left on device"):
            show_all(result_of([record_of("1_a", 1)]), Path("r.json"), None)
    assert capsys.readouterr().err == "Raw values: r.json\n"


@NEEDS_DEV_FULL
@pytest.mark.usefixtures("undrawn")
def test_a_run_whose_page_has_no_room_has_shown_its_table_before(capsys: pytest.CaptureFixture[str]) -> None:
    """That the error then is one line: test_a_report_that_has_no_room_leaves_what_was_there."""
    with pytest.raises(UnwritableError, match="'/dev/full' can't be written: No space left on device"):
        show_all(result_of([record_of("1_a", 1)]), None, Path("/dev/full"))
    shown = capsys.readouterr()
    assert "1_a" in shown.out
    assert shown.err == "Raw values could not be saved.\n"


@NEEDS_DEV_FULL
def test_a_full_disk_behind_stderr_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(full, write_through=True))
        with ProgressBar(1, quiet=False) as progress:
            progress.warn("the disk is full")
            progress.say("really")


ASCII = [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]


@pytest.mark.parametrize("dress", ["table", "timeline", "markdown"])
def test_a_terminal_that_knows_only_ascii_gets_what_it_can_show(dress: str) -> None:
    ran = called("report", str(ROOT / "results" / "sample.json"), "--format", dress, charset="ascii")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.isascii()
    assert "?" in ran.stdout  # in place of what it can't


def test_so_does_one_that_is_told_by_its_locale(bench) -> None:
    ran = bench("report", str(ROOT / "results" / "sample.json"), env=ASCII[1])
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.isascii()


def test_an_error_there_is_one_line_too(bench) -> None:
    refused = bench("report", "\u00fc\u202e.json", env=ASCII[0])
    assert (refused.returncode, is_one_line(refused)) == (2, True)


@pytest.mark.parametrize("words", [["-S"], ["-I", "-S"]], ids=" ".join)
def test_a_python_without_our_packages_is_told_what_to_run(words: list[str], tmp_path: Path) -> None:
    python = shutil.which(os.path.realpath(sys.executable))
    ran = subprocess.run([python, *words, str(ROOT / "bench.py"), "list"], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, is_one_line(ran)) == (2, True), ran.stderr
    assert "has no click; run ./scripts/setup" in ran.stderr


def test_one_that_lacks_only_some_of_them_is_told_the_same(bench, tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise ModuleNotFoundError('No module named msgspec', name='msgspec')")
    ran = bench("report", RESULT, env={"PYTHONPATH": str(tmp_path)})
    assert (ran.returncode, is_one_line(ran)) == (2, True), ran.stderr
    assert "has no msgspec; run ./scripts/setup" in ran.stderr
