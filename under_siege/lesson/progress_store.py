"""The notebook: what was predicted at each step and what came of it, in a folder that one can come back to."""

from pathlib import Path

import msgspec

from common.errors import BadInputError
from under_siege.lesson.step import Step
from under_siege.model.result_file import read_whole, write_whole

SCHEMA = 1
_FILE = "progress.json"


class Done(msgspec.Struct):
    """A step that was gone through."""

    predicted: str  # a letter for each of its questions
    right: str  # and those of the answers that fitted; `?` where it could not be told
    result: str  # the file with the raw values; empty where only a committed one was shown
    instead: str = ""  # why that was
    command: list[str] = []


class _Kept(msgspec.Struct):
    steps: dict[str, Done] = {}
    schema: int = SCHEMA


class Notebook:
    """A folder with the results of the steps, and the file that says which are done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._kept = _read(folder / _FILE)

    @property
    def done(self) -> dict[str, Done]:
        """By the names of the steps."""
        return self._kept.steps

    def next_of(self, steps: list[Step]) -> Step | None:
        """The first that is not done."""
        return next((step for step in steps if step.name not in self.done), None)

    def result_of(self, step: Step) -> Path:
        """Where its raw values are kept; makes the folder."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInputError(
                f"folder {str(self.folder)!r} can't be made: {error.strerror}; try --keep FOLDER"
            ) from None
        return self.folder / f"{step.name}.json"

    def keep(self, step: Step, done: Done) -> None:
        """It was gone through; raises UnwritableError."""
        self.result_of(step)
        self._kept.steps[step.name] = done
        write_whole(self.folder / _FILE, msgspec.json.format(msgspec.json.encode(self._kept), indent=2) + b"\n")


def _read(path: Path) -> _Kept:
    if not path.exists():
        return _Kept()
    try:
        kept = msgspec.json.decode(read_whole(path, b"{"), type=_Kept)
    except (OSError, ValueError) as error:
        raise BadInputError(f"{path} says nothing about progress: {error}; remove it to begin anew") from None
    if kept.schema > SCHEMA:
        raise BadInputError(f"{path} was written by a later version; try --keep with another folder")
    return kept
