"""Files that the bench writes."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from under_siege.record.files import write_atomically


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def test_a_new_file_has_the_permissions_that_the_umask_allows(umask: None, tmp_path: Path) -> None:
    for mask, mode in ((0o077, 0o600), (0o022, 0o644), (0o002, 0o664)):
        os.umask(mask)
        write_atomically(tmp_path / f"{mask}.json", b"{}")
        assert stat.S_IMODE((tmp_path / f"{mask}.json").stat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o600, 0o666, 0o440])
def test_an_existing_file_keeps_its_permissions(mode: int, umask: None, tmp_path: Path) -> None:
    (tmp_path / "r.json").touch()
    (tmp_path / "r.json").chmod(mode)
    write_atomically(tmp_path / "r.json", b"{}")
    assert stat.S_IMODE((tmp_path / "r.json").stat().st_mode) == mode
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]
