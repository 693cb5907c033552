"""The progress of a run on a terminal: one bar, the strategy at work, its live rate, the time left."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from common.record import Record
from common.report import numbers


class ProgressBar:
    """Told how a run goes on, shows it; shows nothing where there is no terminal, or it shall be quiet."""

    def __init__(self, cases: int, *, quiet: bool) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
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
        self._began_s, self._answers = 0.0, 0

    def __enter__(self) -> "ProgressBar":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def case_begins(self, record: Record) -> None:
        """Shows what is at work."""
        self._began_s, self._answers = 0.0, 0
        self._progress.update(self._task, description=f"round {record.round}  {record.server}", rate="")

    def answer_came(self) -> None:
        """Counts it into the live rate."""
        now_s = time.monotonic()
        self._began_s = self._began_s or now_s
        self._answers += 1
        if now_s > self._began_s:
            live = (self._answers - 1) / (now_s - self._began_s)
            self._progress.update(self._task, rate=f"{numbers.rate(live)}/s")

    def case_ends(self, record: Record) -> None:
        """Moves the bar on; says at once what went wrong."""
        self._progress.advance(self._task)
        if record.failure is not None:
            self._progress.console.print(f"{record.server}: {record.failure.message}", markup=False, highlight=False)
