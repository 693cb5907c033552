"""The progress of what a lesson runs: without advice on options that there are not here, in lines that fit."""

import textwrap

from under_siege.paths import PROGRAM
from under_siege.report.progress_bar import ProgressBar

WIDTH = 78


class LessonProgress(ProgressBar):
    """One bar; and what is in the way, in words."""

    def __init__(self, cases: int) -> None:
        super().__init__(cases, quiet=False)

    def say(self, message: str) -> None:
        """Nothing: it takes as long as it takes."""

    def warn(self, message: str) -> None:
        """As many lines as it takes."""
        if not message.startswith(("--", "the CPUs are")):  # that others work has been said
            for line in textwrap.wrap(message, WIDTH - len(f"{PROGRAM}: ")):
                super().warn(line)
