"""Find the package indexes that pip or a requirements file names, because uv would use the public index instead.

uv reads its own settings, but not those of pip. In a requirements file, it prefers the environment to the file.
"""

import configparser
import os
from collections.abc import Iterable
from pathlib import Path

from common.errors import BadInputError
from under_siege.host.requirement_files import at, index_of, toml_of

_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_CONFIG_FILE")
_KEYS = ("index", "index-url", "extra-index-url", "no-index")  # in uv's settings
_OF_PIP = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX"}
_WAY_OF_PIP = {"cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY"}  # how pip reaches any index


def uv_environment(files: Iterable[Path], folder: Path) -> dict[str, str]:
    """Return this process's environment, changed so that uv uses the indexes that pip would use, and its certificates.

    Args:
        files: the requirements files to install.
        folder: the directory where uv runs.

    Raises:
        BadInputError: a file can't be read, or pip must not use any index.
    """
    pip = _pip_settings()
    environment = {**{name: pip[key] for key, name in _WAY_OF_PIP.items() if pip.get(key)}, **os.environ}
    if named := [index for file in files if (index := index_of(file))]:
        environment.pop("UV_INDEX_URL", None)
        environment["UV_DEFAULT_INDEX"] = named[-1]
    elif not _has_settings(folder):
        environment |= {name: " ".join(pip[key].split()) for key, name in _OF_PIP.items() if pip.get(key)}
        if pip.get("no-index", "").lower() in ("1", "true", "yes", "on"):
            raise BadInputError("pip must use no index, but uv would: set UV_DEFAULT_INDEX, or create .venv yourself")
    return environment


def _has_settings(folder: Path) -> bool:
    """Return whether uv itself is told which index to use."""
    if any(os.environ.get(name) for name in _VARIABLES):
        return True
    places = [folder.resolve(), *folder.resolve().parents]
    files = [*(place / "uv.toml" for place in places), _configuration() / "uv" / "uv.toml", Path("/etc/uv/uv.toml")]
    tables = [*(at(toml_of(place / "pyproject.toml"), "tool", "uv") for place in places), *map(toml_of, files)]
    return any(at(table, *where, key) for table in tables for where in ((), ("pip",)) for key in _KEYS)


def _configuration() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _pip_settings() -> dict[str, str]:
    """Return pip's settings for all commands and for `install`; environment variables precede files."""
    found: dict[str, str] = {}
    shared = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf")]
    own = [Path.home() / ".pip" / "pip.conf", _configuration() / "pip" / "pip.conf"]
    parser = configparser.RawConfigParser()
    named = os.environ.get("PIP_CONFIG_FILE")
    for file in (*shared, *own, *([Path(named)] if named else [])):  # later ones win
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, ValueError):  # pip would refuse to run
            continue
    for section in ("global", "install"):
        if parser.has_section(section):
            found |= dict(parser.items(section))
    prefix = "PIP_"
    return found | {
        name.removeprefix(prefix).lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith(prefix) and value
    }
