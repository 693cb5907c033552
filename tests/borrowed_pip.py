"""Virtual environments with the pip of this Python, because it takes seconds to give them one of their own."""

import contextlib
import venv
from collections.abc import Iterator
from pathlib import Path

import pip
import pytest

import common.harness.session  # noqa: F401 (imported late, what it imports would keep the borrowed one)
from common.harness.ready import requirements, virtualenv


@contextlib.contextmanager
def borrowed_pip() -> Iterator[None]:
    """What the bench makes in the body; all else of it is as ever."""
    run = virtualenv.run_command

    async def quickly(command: list[str], otherwise: str, folder: Path | None = None) -> None:
        if command[1:-1] == ["-m", "venv", "--clear"] and virtualenv.LIMIT_S > 0:
            packages = new_environment(Path(command[-1]))
            (packages / "pip").symlink_to(Path(pip.__file__).parent)
        else:
            await run(command, otherwise, folder)

    with pytest.MonkeyPatch.context() as patched:
        for module in (virtualenv, requirements):
            patched.setattr(module, "run_command", quickly)
        yield


def new_environment(folder: Path) -> Path:
    """One without pip, of this Python: where its packages are."""
    venv.create(folder, clear=True, with_pip=False, symlinks=True)
    (packages,) = (folder / "lib").glob("python3*/site-packages")
    return packages
