"""Show the progress of a run: the current case, its live rate, and the time left."""

import contextlib
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from under_siege import formatting
from under_siege.formatting import legible
from under_siege.paths import PROGRAM
from under_siege.secrets import masked


class ProgressBar:
    """The progress bar of a run, which is hidden if stderr is not a terminal or --quiet is set."""

    def __init__(self, cases: int, *, quiet: bool) -> None:
        console, self._quiet = Console(stderr=True), quiet
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]:>12}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            transient=True,
            refresh_per_second=4,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._progress.add_task("setting up", total=cases, rate="")
        self._began_s = 0.0
        self._answers = 0
        self._cases_done = 0

    def __enter__(self) -> "ProgressBar":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def warn(self, message: str) -> None:
        """Print a warning on one line, even if the progress bar is hidden."""
        with contextlib.suppress(OSError):  # stderr may not be writable, for example because the disk is full
            self._progress.console.print(
                f"{PROGRAM}: {legible(masked(message))}", markup=False, highlight=False, soft_wrap=True
            )

    def say(self, message: str) -> None:
        """Print a message on one line, unless --quiet is set."""
        if not self._quiet:
            self.warn(message)

    def case_begins(self, what: str, time_s: float) -> None:
        self._began_s = 0.0
        self._answers = 0
        self._time_s = time_s
        self._progress.update(self._task, description=what, rate="")

    def answer_came(self) -> None:
        now_s = time.monotonic()
        self._began_s = self._began_s or now_s
        self._answers += 1
        if now_s > self._began_s:
            took_s = now_s - self._began_s
            part = min(0.9, took_s / self._time_s)  # the case is complete only when `case_ends` is called
            live = f"{formatting.rate((self._answers - 1) / took_s)}/s" if self._answers > 1 else ""
            self._progress.update(self._task, completed=self._cases_done + part, rate=live)

    def case_ends(self) -> None:
        self._cases_done += 1
        self._progress.update(self._task, completed=self._cases_done)
