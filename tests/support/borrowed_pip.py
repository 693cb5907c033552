"""Virtual environments with the pip of this Python, because it takes seconds to give them one of their own."""

import contextlib
import venv
from collections.abc import Iterator
from pathlib import Path

import pip
import pytest

import under_siege.run.session  # noqa: F401 (imported late, what it imports would keep the borrowed one)
from under_siege.environments import dependencies, venvs

# In place of pip. What that would say of all requirements together nobody reads: of each it is asked for its log.
AT_HAND = """
import os, runpy, sys, sysconfig, zipfile
from pathlib import Path

names = [word.split("=")[0].split("[")[0] for word in sys.argv[2:] if not word.startswith("-")]
wheels = [Path(os.environ.get("PIP_FIND_LINKS", ""), f"{name}-1-py3-none-any.whl") for name in names]
if all(wheel.exists() for wheel in wheels):
    for wheel in wheels:
        zipfile.ZipFile(wheel).extractall(sysconfig.get_path("purelib"))
elif "--only-binary=:all:" in sys.argv and not any(word.startswith("--log") for word in sys.argv):
    sys.exit("not all of it is at hand")
else:
    del sys.modules["pip"]
    sys.path.insert(0, str(Path(__file__).parent / "pips_own"))
    runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


@contextlib.contextmanager
def borrowed_pip(*, at_hand: bool = False) -> Iterator[None]:
    """What the bench makes in the body; all else of it is as ever.

    Args:
        at_hand: wheels in the folder PIP_FIND_LINKS are just unpacked, which takes pip half a second of a CPU; and
            it is asked only why a single package can't be had.
    """
    run = venvs.run_command

    async def quickly(command: list[str], otherwise: str, folder: Path | None = None) -> None:
        if command[1:-1] == ["-m", "venv", "--clear"] and venvs.LIMIT_S > 0:
            packages = new_environment(Path(command[-1]))
            place = packages / "pip" / "pips_own" if at_hand else packages
            place.mkdir(parents=True, exist_ok=True)
            (place / "pip").symlink_to(Path(pip.__file__).parent)
            if at_hand:
                (packages / "pip" / "__init__.py").touch()
                (packages / "pip" / "__main__.py").write_text(AT_HAND)
        else:
            await run(command, otherwise, folder)

    with pytest.MonkeyPatch.context() as patched:
        for module in (venvs, dependencies):
            patched.setattr(module, "run_command", quickly)
        yield


def new_environment(folder: Path) -> Path:
    """One without pip, of this Python: where its packages are."""
    venv.create(folder, clear=True, with_pip=False, symlinks=True)
    (packages,) = (folder / "lib").glob("python3*/site-packages")
    return packages
