"""Git repositories."""

import subprocess
from pathlib import Path


def git(folder: Path, *words: str | Path) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def commit_all(folder: Path) -> None:
    """Create a repository in the folder, if there is none, and commit all files."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "all")
