"""How modules of ours are started in any Python, and where servers listen."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
OURS_FIRST = ("-P", "-m")  # so that what the user's folder holds does not stand before a module of ours


def server_environment() -> dict[str, str]:
    """This process's environment, with `common` importable in any interpreter."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
