"""The answer that every server must give: found before any is started, by trying the task in a worker process."""

import json
import os
import random
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from urllib.parse import quote

from common.errors import BadInputError
from under_siege.http_client import Answer
from under_siege.model.case import Value
from under_siege.model.result_file import legible
from under_siege.model.suite import ANY, SAME
from under_siege.paths import script, server_environment
from under_siege.processes.managed_process import ManagedProcess, until
from under_siege.processes.process_output import Tail
from under_siege.targets.interpreter import Interpreter

LIMIT_S = 60.0
PLACE = "{file}"  # of one of the files in a path
MOST_BYTES = 64_000_000  # of what the trial prints; the answer comes last
PATIENCE_S, LINE_BESIDES_USERS = 15.0, 10  # beside the users there are checks in the line
QUEUE_S = 0.05  # that one of jobs may take for each, beside the work


Work = tuple[tuple[str, Value], ...]


class Files:
    """The files of a folder, any of which may be asked for: the right answer is what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = sorted(Path(where, name) for where, _, names in os.walk(folder) for name in names)
        self.sizes = {one.relative_to(folder).as_posix(): one.stat().st_size for one in found}  # in bytes
        self._names = list(self.sizes)
        self._random = random.Random(0)  # noqa: S311 (not for secrets)

    def another(self) -> str:
        """The name of one of them."""
        return self._random.choice(self._names)

    def contents(self, name: str) -> bytes:
        """What is in it."""
        return (self.folder / name).read_bytes()

    @staticmethod
    def path(where: str, name: str) -> str:
        """A path or an address with the file in its place."""
        return where.replace(PLACE, quote(name))


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a task answers, and how long it takes alone."""

    answer: bytes
    task_s: float
    cpu_s: float
    status: int = 200
    body: str = SAME  # how answers are compared with it
    headers: tuple[tuple[str, str], ...] = ()  # that a right answer has beside it
    files: Files | None = None  # what is asked for, each time another one
    of_a_job: bool = False  # which is posted where others are asked for

    @property
    def size_bytes(self) -> int:
        """How long every right answer is; -1 where that may differ."""
        return len(self.answer) if self.body == SAME and self.files is None else -1

    def asked_at(self, url: str) -> tuple[str, "Expectation"]:
        """Where to ask now, and what is right there."""
        if self.files is None:
            return url, self
        name = self.files.another()
        return self.files.path(url, name), replace(self, answer=self.files.contents(name), files=None)

    def problem(self, answer: Answer) -> str:
        """What is wrong with an answer, beginning with what it is; empty if it is right."""
        if not self.fits(answer.status, answer.body):
            alike = (
                self.body == SAME and answer.status == self.status and _as_json(answer.body) == _as_json(self.answer)
            )
            words = " (equal as JSON, not in bytes)" if alike else ""
            return f"{answer.described()} instead of {self.described()}{words}"
        for name, value in self.headers:
            if (given := answer.headers.get(name.lower())) != value:
                told = f"{name}: {legible(given)[:100]}" if given is not None else f"no {name}"
                return f"{told} instead of {name}: {value}, so that something else has answered"
        return ""

    def fits(self, status: int, body: bytes) -> bool:
        """Whether an answer is right."""
        if status != self.status or self.body == ANY:
            return status == self.status
        return body == self.answer if self.body == SAME else _as_json(body) == _as_json(self.answer)

    def described(self) -> str:
        """Short, for a message."""
        return str(self.status) if self.body == ANY else Answer(self.status, self.answer, {}).described()

    def patience_s(self, users: int) -> float:
        """How long an answer may take if the server lets all users wait in one line."""
        return PATIENCE_S + (users + LINE_BESIDES_USERS) * (self.task_s + QUEUE_S * self.of_a_job)


Expectations = dict[Work, Expectation]  # by what a single answer takes depends on, as `Case.work` has it


def _as_json(body: bytes) -> object:
    """What it means; the bytes themselves where that is nothing."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body


async def try_task(task: str, python: Interpreter, folder: Path | None = None) -> Expectation:
    """Performs the task once, in a process of its own.

    Raises:
        BadInputError: it can't be imported or sent to a worker process, it raised, or it took too long.
    """
    command = [python.path, *script("reference_run"), task]
    with TemporaryFile() as output:
        trial = ManagedProcess(command, environment=server_environment(), stdout=output, folder=folder)
        errors = Tail(trial.process.stderr)
        try:
            if not await trial.wait(LIMIT_S):
                raise BadInputError(f"task {task!r} did not end within {LIMIT_S:.0f} s; expected a shorter one")
        finally:
            await trial.stop()
        await until(lambda: not errors.reading(), 1.0)
        output.seek(max(0, output.seek(0, os.SEEK_END) - MOST_BYTES))
        printed = output.read().decode(errors="replace").splitlines()
    if trial.process.returncode != 0:
        raise BadInputError(_last_line(errors.text(), task))
    run = _run(printed, task)
    return Expectation(run["answer"].encode(), run["finished_s"] - run["started_s"], run["cpu_s"])


def _run(printed: list[str], task: str) -> dict[str, Any]:
    """The last thing that the trial printed; whatever the task itself prints comes before, or in its midst."""
    try:
        run: dict[str, Any] = json.loads(printed[-1])
        return run | {"answer": str(run["answer"])}
    except (ValueError, LookupError, TypeError):
        raise BadInputError(
            f"the answer of task {task!r} can't be read: it prints on stdout, or answers more than "
            f"{MOST_BYTES:,} bytes; expected a task that prints nothing"
        ) from None


def _last_line(text: str, task: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[-1].startswith("trial: "):
        return lines[-1].removeprefix("trial: ")
    return f"task {task!r} can't be tried in a worker process: {lines[-1] if lines else 'it ended the process'}"
