"""Add packages beside those of a Python, in another environment, so that the user's environment stays unchanged."""

import asyncio
import hashlib
import re
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from uv import find_uv_bin

from common.errors import BadInputError
from under_siege.host.environments import (
    Missing,
    Tell,
    created_once,
    environment_directory,
    install_wheels,
    run_uv,
)
from under_siege.host.interpreter import Interpreter, package_directories
from under_siege.host.managed_process import COMMAND_LIMIT_S


async def environment_beside(additions: tuple[str, ...], python: Interpreter, tell: Tell) -> Path | str:
    """Create an environment with all packages of a Python and some more; return its directory, or why it failed.

    The environment of that Python is not changed. If both environments have a package, that of the Python wins.
    """
    try:
        directories = package_directories(python.path)
        frozen = await _uv_output("pip", "freeze", "--python", python.path)
        directory = environment_directory(python, "beside", *directories, *sorted(additions))
        make = partial(_make_beside, directories=directories, frozen=frozen)
        state = hashlib.sha256(frozen.encode()).hexdigest()
        await created_once(directory, state, python, additions, tell, make=make)
    except (BadInputError, OSError, subprocess.SubprocessError, ValueError) as error:
        return f"{', '.join(additions)} can't be added to {python.path}: {error}"
    return directory


async def _make_beside(
    directory: Path,
    python: Interpreter,
    additions: Sequence[str],
    _suite: Path | None,
    tell: Tell,
    *,
    directories: Sequence[str],
    frozen: str,
) -> tuple[Missing, bool]:
    await run_uv("venv", "--clear", "--python", python.path, str(directory))
    (directory / "constraints.txt").write_text(
        "\n".join(line for line in frozen.splitlines() if re.fullmatch(r"[\w.-]+==[\w.!-]+", line))
    )
    install = ["pip", "install", "--compile-bytecode", "--python", str(directory / "bin" / "python")]
    install += ["--constraint", str(directory / "constraints.txt")]
    missing, is_final = await install_wheels(install, additions, tell)
    for package, reason in missing.items():
        tell(f"{package} can't be added: {reason}")
    (packages,) = (directory / "lib").glob("python3*/site-packages")
    # `addsitedir` also processes .pth files, such as those of packages installed in editable mode.
    lines = [f"own = {str(packages)!r}", "sys.path.remove(own) if own in sys.path else None"]
    lines += [*(f"site.addsitedir({path!r})" for path in directories), "sys.path.append(own)"]
    (packages / "of_the_user.pth").write_text(f"import site, sys; {'; '.join(lines)}\n")
    return {}, is_final


async def _uv_output(*arguments: str) -> str:
    command = [find_uv_bin(), "--quiet", "--color=never", *arguments]
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True, timeout=COMMAND_LIMIT_S)
    return str(ran.stdout)
