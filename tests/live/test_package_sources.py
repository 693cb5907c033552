"""Packages of applications come from the sources that their owner names, with the hashes that their owner names."""

import asyncio
import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest
from sample_applications import write
from uv import find_uv_bin

from under_siege.host import environments
from under_siege.host.interpreter import interpreter


def write_index(folder: Path, **versions: str) -> Path:
    """Write a package index whose packages name this folder; return its address for uv."""
    for name, version in versions.items():
        (place := folder / "simple" / name.replace("_", "-")).mkdir(parents=True)
        wheel = place / f"{name}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{name}.py", f"origin, version = {folder.name!r}, {version!r}\n")
            about = f"{name}-{version}.dist-info"
            archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{about}/RECORD", "")
        (place / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    return folder / "simple"


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a private index with a package whose name somebody else has taken on the public one."""
    for name in ("UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    public = write_index(tmp_path / "public", acme_core="1.2.0", other="1.0")
    monkeypatch.setenv("UV_DEFAULT_INDEX", public.as_uri())
    monkeypatch.setattr(environments, "DIRECTORY", tmp_path / "made")
    (tmp_path / "shop").mkdir()
    return write_index(tmp_path / "private", acme_core="1.2.0", other="1.0")


def origins(folder: Path, *requirements: str) -> str:
    """Install the packages; return the origin of acme-core and of other, or why this failed."""
    made = asyncio.run(environments.environment_with(requirements, interpreter(), folder, lambda _told: None))
    if isinstance(made, str):
        return made
    script = "import acme_core, other; print(acme_core.origin, other.origin, other.version)"
    return subprocess.run([made / "bin" / "python", "-c", script], capture_output=True, text=True, check=True).stdout


PROJECT = """\
[project]
name = "shop"
version = "1"
requires-python = ">=3.11"
dependencies = ["acme-core", "other"]
[tool.uv.sources]
acme-core = {{ index = "private" }}
[[tool.uv.index]]
name = "private"
url = "{index}"
explicit = true
"""


@pytest.mark.parametrize("name", ["uv.lock", "pyproject.toml"])
@pytest.mark.parametrize("below", [False, True])
def test_packages_of_a_project_come_from_the_indexes_that_it_names(
    name: str, below: bool, private: Path, tmp_path: Path
) -> None:
    write(tmp_path / "shop", {"pyproject.toml": PROJECT.format(index=private.as_uri()), "api/.keep": ""})
    subprocess.run([find_uv_bin(), "lock", "--quiet"], cwd=tmp_path / "shop", check=True)
    folder, file = (tmp_path / "shop" / "api", f"../{name}") if below else (tmp_path / "shop", name)
    assert origins(folder, f"-r {file}") == "private public 1.0\n"


def test_a_locked_package_with_another_hash_is_refused(private: Path, tmp_path: Path) -> None:
    write(tmp_path / "shop", {"pyproject.toml": PROJECT.format(index=private.as_uri())})
    subprocess.run([find_uv_bin(), "lock", "--quiet"], cwd=tmp_path / "shop", check=True)
    lock = tmp_path / "shop" / "uv.lock"
    for digest in (hashlib.sha256(next(private.rglob("acme*.whl")).read_bytes()).hexdigest(), "0" * 64):
        lock.write_text(lock.read_text().replace('.whl" }', f'.whl", hash = "sha256:{digest}" }}', 1))
        found = origins(tmp_path / "shop", "-r uv.lock")
        assert ("Hash mismatch" in found) == (digest == "0" * 64), found
        lock.write_text(lock.read_text().replace(f', hash = "sha256:{digest}"', ""))


def test_locked_versions_stay_if_a_suite_adds_packages(private: Path, tmp_path: Path) -> None:
    write(tmp_path / "shop", {"pyproject.toml": PROJECT.format(index=private.as_uri())})
    subprocess.run([find_uv_bin(), "lock", "--quiet"], cwd=tmp_path / "shop", check=True)
    write_index(tmp_path / "newer", other="2.0")
    assert origins(tmp_path / "shop", "-r uv.lock", "other") == "private public 1.0\n"
    newer = next((tmp_path / "newer").rglob("*.whl"))
    assert "its requirements can't be installed" in origins(
        tmp_path / "shop", "-r uv.lock", f"other @ {newer.as_uri()}"
    )


def test_packages_in_requirements_come_from_their_index_and_from_their_folder(private: Path, tmp_path: Path) -> None:
    wheel = next(private.rglob("other*.whl"))
    (tmp_path / "shop" / wheel.name).write_bytes(wheel.read_bytes())
    write(tmp_path / "shop", {"requirements.txt": f"-r more.txt\n./{wheel.name}\n", "api/.keep": ""})
    write(tmp_path / "shop", {"more.txt": f"acme-core\n--index-url {private.as_uri()}\n"})
    assert origins(tmp_path / "shop" / "api", "-r ../requirements.txt") == "private private 1.0\n"
    write(tmp_path / "shop", {"more.txt": f"acme-core==1.2.0 --hash=sha256:{'0' * 64}\n"})
    assert "Hash mismatch" in origins(tmp_path / "shop", "-r requirements.txt")
