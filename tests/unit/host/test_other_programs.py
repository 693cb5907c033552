"""The CPU use of other programs on the machine."""

from collections import namedtuple

import pytest

from under_siege.host import machine_check

Times = namedtuple("Times", "user idle")


def test_cpu_use_of_other_programs_excludes_the_benchmark_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, own_s = iter([Times(100.0, 0.0), Times(103.0, 7.0)]), iter([1.0, 3.0])
    monkeypatch.setattr(machine_check.psutil, "cpu_times", lambda: next(seen))
    monkeypatch.setattr(machine_check, "_own_s", lambda: next(own_s))
    assert machine_check.OtherWork().share_pct(0.0) == pytest.approx(10)
