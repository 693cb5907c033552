"""Write sentences about the processes of a server that explain its figures."""

import re
from collections.abc import Iterator, Sequence

from under_siege import formatting
from under_siege.formatting import listed
from under_siege.judge.round_statistics import Round
from under_siege.judge.server_processes import (
    PARENT,
    SLOWER,
    Crowding,
    crowding,
    replaced_together,
    spare_import,
    watched,
    workers_at_once,
)
from under_siege.judge.speed_correction import other_work, stolen
from under_siege.record.case import WORKERS
from under_siege.suite.what_if import is_what_if

VARIED = 0.1  # the lowest and the highest rate of rounds differ by at least this share of their mean
IDLE = 0.5  # largest ratio of the CPU times of two workers that is worth a remark
MOST_LISTED = 4  # maximum number of workers whose users are listed
_SETS_WORKERS = re.compile(r"(?:^| )(?:-w ?\d|--workers[ =]\d)").search


def sentences_on(rounds: Sequence[Round]) -> Iterator[str]:
    """Yield a sentence for each way in which the processes of a case explain its figures."""
    yield from _on_crowding(rounds)
    asked, ran = rounds[0].record.values.get(WORKERS), _workers_that_ran(rounds)
    if isinstance(asked, int) and ran and asked != ran:
        yield f"{formatting.counted(asked, 'worker')} {'was' if asked == 1 else 'were'} asked for, {ran} ran"
    spare = [spare_import(run) for run in rounds]
    if spare and (last := spare[-1]) and all(spare):
        both = f"{last.parent_bytes / 1e6:,.0f} of {formatting.megabytes(last.all_bytes)}"
        yield f"the parent process imported the application, too: {both}"
    together = [found for run in rounds if (found := replaced_together(run))]
    if together:
        worst = max(together, key=lambda found: found.silence_s)
        which = {1: "the only worker", 2: "both workers"}.get(worst.workers, f"all {worst.workers} workers")
        was = "ended" if not worst.is_complete else "was replaced" if worst.workers == 1 else "were replaced"
        within = f" within {formatting.significant(worst.within_s, 1)} s" if worst.workers > 1 else ""
        yield f"{which} {was}{within}: nobody answered for {formatting.seconds(worst.silence_s)}"


def _on_crowding(rounds: Sequence[Round]) -> Iterator[str]:
    crowds = [crowding(run) for run in rounds]
    found = [each for each in crowds if each]
    if not found:
        return
    worst = max(found, key=lambda each: (each.users[-1], each.slower or 0.0))
    effects = []
    if worst.slower and worst.slower >= SLOWER:
        effects.append(f"users of the fullest worker waited {formatting.significant(worst.slower, 2)} times as long")
    elif worst.idle is not None and worst.idle <= IDLE:
        effects.append(f"the emptiest worker used {formatting.share(worst.idle)} of the CPU time of the fullest")
    if varied := _varied(rounds, crowds):
        effects.append(f"rates varied by {formatting.share(varied)} between rounds")
    if effects:
        yield f"{_shared(worst)}: keep-alive connections stay where they were accepted; {listed(effects)}"


def _varied(rounds: Sequence[Round], crowds: Sequence[Crowding | None]) -> float:
    """Return by which share of their mean the rates of rounds varied, or 0 if crowding can't be the cause of that."""
    rates = [
        (run.rate.per_s, crowd.users[-1] if crowd else 0)
        for run, crowd in zip(rounds, crowds, strict=True)
        if run.rate.per_s
    ]
    (lowest, crowded), (highest, spread) = min(rates, default=(0.0, 0)), max(rates, default=(0.0, 0))
    disturbed = max(stolen(run) + other_work(run) for run in rounds)
    varied = (highest - lowest) * len(rates) / sum(rate for rate, _ in rates) if rates else 0.0
    return varied if crowded > spread and varied > VARIED + disturbed else 0.0


def _shared(found: Crowding) -> str:
    users, count = found.users, sum(found.users)
    if users[-1] == count:
        return f"all {count} users shared one of {len(users)} workers"
    if len(users) == 2:
        return f"{users[0]} of {count} users shared one of 2 workers, {users[1]} the other"
    if len(users) <= MOST_LISTED:
        return f"of {count} users, {listed(list(map(str, users)))} shared a worker"
    return f"between {users[0]} and {users[-1]} of {count} users shared each of {len(users)} workers"


def unset_number(rounds: Sequence[Round]) -> Iterator[str]:
    """Yield a sentence with the number of workers, if neither the case nor the command of the server sets it."""
    ran = _workers_that_ran(rounds)
    commands = [each.process.command for each in watched(rounds[0]) if each.role == PARENT]
    if ran and rounds[0].record.values.get(WORKERS) is None and commands and not any(map(_SETS_WORKERS, commands)):
        yield f"{ran} workers ran; the command that starts the server does not set their number"


def _workers_that_ran(rounds: Sequence[Round]) -> int:
    """Return how many worker processes ran, or 0 if this is unknown, differs, or workers may also be threads."""
    numbers, record = {workers_at_once(run) for run in rounds}, rounds[0].record
    return 0 if len(numbers) > 1 or record.kind or is_what_if(record.server) or max(numbers) < 2 else max(numbers)
