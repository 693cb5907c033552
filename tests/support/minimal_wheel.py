"""Write a minimal wheel. This module is also the build backend of the source distributions that it writes."""

import io
import tarfile
import zipfile
from pathlib import Path

PROJECT = '[build-system]\nrequires = []\nbuild-backend = "minimal_wheel"\nbackend-path = ["."]\n'


def write_wheel(folder: str | Path, name: str) -> str:
    file = f"{name}-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{file}", "w") as wheel:
        wheel.writestr(f"{name}.py", "")
        wheel.writestr(f"{name}-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        wheel.writestr(f"{name}-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}-1.dist-info/RECORD", "")
    return file


def build_wheel(folder: str, config_settings: object = None, metadata_directory: object = None) -> str:
    """Build a wheel of the source distribution in the current directory, as PEP 517 specifies."""
    return write_wheel(folder, Path("name").read_text())


def write_source_distribution(folder: Path, name: str) -> None:
    information = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"
    files = {"pyproject.toml": PROJECT, "PKG-INFO": information, "name": name}
    with tarfile.open(folder / f"{name}-1.tar.gz", "w:gz") as archive:
        archive.add(__file__, f"{name}-1/minimal_wheel.py")
        for file, text in files.items():
            (entry := tarfile.TarInfo(f"{name}-1/{file}")).size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
