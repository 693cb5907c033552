"""Read files that list packages in a form that uv can't install directly: uv.lock, Pipfile and Pipfile.lock."""

import json
import subprocess
import tomllib
from pathlib import Path

from uv import find_uv_bin

from common.errors import BadInputError

_LIMIT_S = 60.0


def locked_requirements(path: Path) -> str | None:
    """Return the packages in a lock file as the text of a requirements file, or None for any other file.

    Raises:
        BadInputError: the file can't be read.
    """
    try:
        if path.name == "uv.lock":
            return _uv_lock(path)
        return "\n".join(_pipfile(path)) if path.name.startswith("Pipfile") else None
    except (OSError, ValueError, AttributeError, KeyError) as error:
        raise BadInputError(f"{path} can't be read: {error}") from None


def _uv_lock(path: Path) -> str:
    # Without the project itself: the servers import it from its folder, so that each change counts at once.
    options = ["--frozen", "--no-emit-project", "--no-hashes", "--no-dev", "--no-header", "--no-annotate"]
    command = [find_uv_bin(), "--quiet", "--color=never", "export", *options, "--project", str(path.parent)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S, cwd=path.parent)
    if ran.returncode:
        raise ValueError(" ".join(ran.stderr.split())[:300])
    return ran.stdout


def _pipfile(path: Path) -> list[str]:
    """Return the packages in a Pipfile or Pipfile.lock as requirements."""
    text = path.read_text(encoding="utf-8")
    data = json.loads(text).get("default", {}) if path.suffix == ".lock" else tomllib.loads(text).get("packages", {})
    lines = []
    for name, value in data.items():
        table = value if isinstance(value, dict) else {"version": value}
        extras = f"[{','.join(table['extras'])}]" if table.get("extras") else ""
        version = "" if table.get("version", "*") == "*" else table["version"]
        marker = f"; {table['markers']}" if table.get("markers") else ""
        lines.append(f"{name}{extras}{version}{marker}")
    return lines
