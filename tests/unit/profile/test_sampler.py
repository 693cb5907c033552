"""Stacks that py-spy writes: how they are parsed, classified and limited."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from conftest import ROOT

from under_siege.profile import sampler
from under_siege.record.record import Profile


def test_stacks_are_counted_by_sampling_pass_and_thread(tmp_path: Path) -> None:
    (file := tmp_path / "7").write_text(
        "thread (7): x;run (/a.py:1);f (/b;c.py:2) 42\nthread (9): pool;g (/d.py:3) 4\n?"
    )
    counts: dict[tuple[int, str, str], Counter[str]] = {}
    for name in ("wall", "gil"):
        sampler._count(name, 7, file, counts)
    assert counts == {
        (7, "MainThread", "run (/a.py:1);f (/b;c.py:2)"): Counter(wall=42, gil=42),
        (7, "pool", "g (/d.py:3)"): Counter(wall=4, gil=4),
    }
    sampler._count("cpu", 7, tmp_path / "missing", counts)
    assert len(counts) == 2


def test_processes_that_use_no_cpu_are_sampled_only_in_the_wall_time_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "python_processes", lambda _pid: [1, 2, 3])
    monkeypatch.setattr(sampler, "cpu_times_s", lambda _pids: {1: 5.0, 2: 0.1, 3: 0.2})
    used_s = {1: 4.0, 2: 0.1}  # process 3 was started later
    assert sampler.processes_for("wall", 1, used_s) == [1, 2, 3]
    assert sampler.processes_for("gil", 1, used_s) == [1, 3]


@pytest.mark.parametrize(
    ("path", "file", "kind"),
    [
        ("/shop/shop/main.py", "shop/main.py", "app"),
        ("/shop/.venv/lib/python3.14/site-packages/starlette/routing.py", "starlette/routing.py", "library"),
        ("/usr/lib/python3.14/asyncio/runners.py", "asyncio/runners.py", "library"),
        ("/opt/python3.14t/lib/python3.14t/json/encoder.py", "json/encoder.py", "library"),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>", "library"),
        (f"{ROOT}/servers/2_async.py", "servers/2_async.py", "app"),
        (f"{ROOT}/common/tornado_kit.py", "common/tornado_kit.py", "library"),
        ("", "", "library"),
    ],
)
def test_files_of_the_application_are_distinguished_from_libraries(path: str, file: str, kind: str) -> None:
    frame = sampler._frame(f"work ({path}:3)", Path("/shop"))
    assert (frame.file, frame.line, frame.kind) == (file, 3, kind)


def test_a_frame_of_a_coroutine_function_is_marked_async_and_keeps_the_source_line(tmp_path: Path) -> None:
    source = tmp_path / "app.py"
    source.write_text("def wait():\n    pass\n\n\nasync def report():\n    wait()\n")
    assert sampler._frame(f"report ({source}:6)", tmp_path) == ("report", "app.py", 6, "async", "wait()")
    assert sampler._frame(f"wait ({source}:2)", tmp_path).kind == "app"


@pytest.mark.parametrize(("callee", "kind"), [("fetch", "await"), ("parse", "async")])
def test_a_frame_that_awaits_a_coroutine_of_a_library_is_marked(callee: str, kind: str, tmp_path: Path) -> None:
    (library := tmp_path / "site-packages/http.py").parent.mkdir()
    library.write_text("async def fetch():\n    pass\n\n\ndef parse():\n    pass\n")
    (source := tmp_path / "app.py").write_text("async def report():\n    return parse(await fetch())\n")
    line = {"fetch": 2, "parse": 6}[callee]
    frames = sampler._frames([f"report ({source}:2)", f"{callee} ({library}:{line})"], tmp_path)
    assert [frame.kind for frame in frames] == [kind, "library"]
    (frame,) = sampler._frames([f"report ({source}:2)"], tmp_path)
    assert frame.kind == "await"


def test_a_template_is_a_library_frame_without_a_line(tmp_path: Path) -> None:
    frame = sampler._frame(f"root ({tmp_path}/templates/report.html:27)", tmp_path)
    assert (frame.file, frame.line, frame.kind) == ("jinja2/report.html", 0, "library")


def test_functions_without_readable_source_are_still_named(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_bytes(b"\xff\x00 def (")
    for name in ("broken.py", "gone.py"):
        assert sampler._frame(f"work ({tmp_path / name}:1)", tmp_path)[:4] == ("work", name, 1, "app")


def test_control_characters_in_names_are_replaced() -> None:
    frame = sampler._frame("wo\x1b[31mrk (/shop/a\x07.py:3)", Path("/shop"))
    assert (frame.function, frame.file) == ("wo\ufffd[31mrk", "a\ufffd.py")


@pytest.mark.parametrize("line", ["2147483647", "-1448050080"])
def test_impossible_line_numbers_are_stored_as_0(line: str) -> None:
    """py-spy 0.4 once wrote the frame `__spec__ (__loader__:-1448050080)`."""
    profile = Profile(server="shop", title="", values={})
    sampler._add(profile, {(1, "MainThread", f"__spec__ (__loader__:{line})"): Counter(wall=1)}, Path("/shop"))
    assert (profile.frames.file, profile.frames.line) == (["__loader__"], [0])
    assert msgspec.convert(msgspec.to_builtins(profile), Profile) == profile


def test_the_number_and_depth_of_stored_stacks_are_limited() -> None:
    profile = Profile(server="shop", title="", values={})
    deep = ";".join(f"f{number} (/shop/a.py:{number})" for number in range(sampler.MOST_FRAMES + 5))
    numbers = range(sampler.MOST_STACKS + 5)
    counts = {(1, "MainThread", f"{deep};g{number} (/shop/b.py:1)"): Counter(wall=1) for number in numbers}
    counts[1, "MainThread", "often (/shop/c.py:1)"] = Counter(wall=9)
    sampler._add(profile, counts, Path("/shop"))
    assert len(profile.stacks.wall) == sampler.MOST_STACKS
    assert profile.stacks.wall[0] == 9
    assert max(map(len, profile.stacks.frames)) == sampler.MOST_FRAMES
