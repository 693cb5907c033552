"""Programs that users run themselves, such as a broker, a scheduler or a worker."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator

from conftest import ROOT, SUPPORT


@contextlib.contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program, which can import the sample tasks, in its own session; kill the session at the end."""
    process = subprocess.Popen(
        words,
        cwd=SUPPORT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{SUPPORT}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
