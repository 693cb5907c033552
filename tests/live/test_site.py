"""The documentation site builds without warnings, and its links lead somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_the_site_contains_every_page_in_docs(site: Path) -> None:
    for page in (ROOT / "docs").glob("*.md"):
        built = site / "index.html" if page.stem == "index" else site / page.stem / "index.html"
        assert built.is_file(), page.name


def test_links_to_other_files_of_the_repository_point_to_existing_files_and_are_not_on_the_site(site: Path) -> None:
    linked = {
        (page.parent / path.partition("#")[0]).resolve()
        for page in (ROOT / "docs").rglob("*.md")
        for path in re.findall(r"\]\(((?:\.\./)+[^)]+)\)", page.read_text())
    }
    assert ROOT / "README.md" in linked
    assert [path for path in linked if not path.exists()] == []
    outside = [path.name for path in linked if not path.is_relative_to(ROOT / "docs")]
    assert not [page for page in site.rglob("*.html") for name in outside if f'../{name}"' in page.read_text()]


def test_documentation_pages_load_nothing_from_other_sites(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.findall(r'(?:src|<link[^>]*rel="stylesheet"[^>]*href)="https?:', page.read_text()), page
