#!/usr/bin/env python3
"""Measure how right the figures are: simulate loads whose truth is known, and judge them as `bench.py run` does.

    .venv/bin/python scripts/accuracy.py                    # 200 sieges of each situation
    .venv/bin/python scripts/accuracy.py --sieges 20 mix    # situations whose name contains a word
    .venv/bin/python scripts/accuracy.py --real             # load the scripted server with each tool, for some minutes
    .venv/bin/python scripts/accuracy.py --page             # and write the table to docs/accuracy.md

For each figure, the script prints the truth, the mean and the bias of the estimates, and how many of the 95 % intervals
contain the truth. Where a load was too short for an estimate, the program says so instead; the last column counts it.
"""

import argparse
import heapq
import itertools
import math
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from scripted_server import received, write_suite  # noqa: E402
from simulated_record import result_of  # noqa: E402

from under_siege.judge.ranking import summarize  # noqa: E402
from under_siege.record.record import Machine, Record, SentRequest  # noqa: E402
from under_siege.record.requests import CORRECT, LOAD, LOST, OPEN, PING, Outcome, Requests  # noqa: E402
from under_siege.record.result import load as load_result  # noqa: E402

PAGE = ROOT / "docs" / "accuracy.md"
LONG_S = 20_000.0  # length of the load whose mean is taken as the truth where theory gives none
MOST_BIAS_PCT, LEAST_COVERAGE_PCT = 3.0, 92.0
Draw = Callable[[random.Random], float]


def always(seconds: float) -> Draw:
    return lambda _: seconds


def exponential(mean_s: float) -> Draw:
    return lambda draw: draw.expovariate(1 / mean_s)


def mostly(usual_s: float, rare_s: float, share: float) -> Draw:
    """Return a function that draws `rare_s` with the probability `share`, and otherwise `usual_s`."""
    return lambda draw: rare_s if draw.random() < share else usual_s


@dataclass(frozen=True)
class Kind:
    """A kind of request of a mix."""

    service: Draw
    weight: float = 1.0
    lost: float = 0.0  # share of requests without a response


@dataclass(frozen=True)
class Load:
    """A load and a server, whose workers take requests from one queue in the order of their arrival."""

    time_s: float
    kinds: tuple[Kind, ...]
    users: int = 25
    workers: float = math.inf
    pause: Draw | None = None
    pause_name: str = "1s"
    first_pause: Draw | None = None  # the rest of a pause that is in progress when the load begins
    arrivals_per_s: float = 0.0  # 0: closed loop
    pings_wait: bool = False  # whether pings queue behind requests
    events: int = 0  # of a stream; 0: plain responses
    first_event: float = 0.0  # share of the duration of a stream until its first event
    step_s: float = 0.0  # resolution of the tool's times


@dataclass
class Simulation:
    """One siege: requests in the order in which workers take them."""

    load: Load
    draw: random.Random
    requests: Requests = field(default_factory=Requests)

    def run(self, time_s: float) -> Requests:
        load = self.load
        free = [0.0] * (0 if load.workers == math.inf else int(load.workers))
        waiting = list(self._first(time_s))
        heapq.heapify(waiting)
        numbers = itertools.count(len(waiting))
        while waiting and waiting[0][0] < time_s:
            due_s, _, user, is_ping = heapq.heappop(waiting)
            index = self._kind()
            service_s = 0.002 if is_ping else load.kinds[index].service(self.draw)
            begin_s = due_s
            if load.workers < math.inf and (not is_ping or load.pings_wait):
                begin_s = max(due_s, free[0])
                heapq.heapreplace(free, begin_s + service_s)
            end_s = begin_s + service_s
            is_lost = not is_ping and self.draw.random() < load.kinds[index].lost
            self._add(user, index, due_s, begin_s, end_s, time_s, is_ping=is_ping, is_lost=is_lost)
            if not is_ping and not load.arrivals_per_s:
                pause_s = load.pause(self.draw) if load.pause else 0.0
                heapq.heappush(waiting, (end_s + pause_s, next(numbers), user, False))
        return self.requests

    def _first(self, time_s: float) -> Iterator[tuple[float, int, int, bool]]:
        load, number = self.load, 0
        if load.arrivals_per_s:
            for user in range(round(load.arrivals_per_s * time_s)):
                yield self.draw.uniform(0, time_s), user, user % 10**6, False
                number = user + 1
        else:
            longest_s = load.kinds[0].service(self.draw) if load.events else 0.0
            for user in range(load.users):
                at_s = load.first_pause(self.draw) if load.first_pause else self.draw.random() * longest_s
                yield at_s, user, user, False
                number = user + 1
        for ping in range(int(time_s / 0.05) if time_s < LONG_S or load.pings_wait else 0):
            yield 0.05 * ping, number + ping, -1, True

    def _kind(self) -> int:
        kinds = self.load.kinds
        return self.draw.choices(range(len(kinds)), [kind.weight for kind in kinds])[0] if len(kinds) > 1 else 0

    def _add(
        self,
        user: int,
        index: int,
        due_s: float,
        begin_s: float,
        end_s: float,
        time_s: float,
        *,
        is_ping: bool,
        is_lost: bool,
    ) -> None:
        outcome: Outcome = LOST if is_lost else CORRECT
        if is_ping:
            self.requests.add(PING, sent_s=due_s, ended_s=end_s, status=200, outcome=outcome)
            return
        if end_s > time_s:
            outcome, end_s = OPEN, time_s
        events = self._events(begin_s, end_s, due_s) if self.load.events else None
        status = 200 if outcome == CORRECT else 0
        if self.load.step_s:  # the tool rounds down the duration, and its line comes at the end
            due_s = end_s - math.floor((end_s - due_s) / self.load.step_s) * self.load.step_s
        self.requests.add(
            LOAD,
            user=user,
            request=index,
            sent_s=due_s,
            ended_s=end_s,
            status=status,
            size_bytes=4,
            outcome=outcome,
            events=events,
        )

    def _events(self, begin_s: float, end_s: float, due_s: float) -> tuple[int, list[int]]:
        whole_s = self.load.kinds[0].service(self.draw)
        gap_s = whole_s * (1 - self.load.first_event) / max(1, self.load.events - 1)
        first_s = begin_s - due_s + whole_s * self.load.first_event
        seen = 1 + int((end_s - due_s - first_s + 1e-9) / gap_s) if due_s + first_s <= end_s else 0
        seen = min(seen, self.load.events)
        return (round(first_s * 1e6) if seen else -1), [round(gap_s * 1e6)] * max(0, seen - 1)


def record_of(load: Load, seed: int, round_: int = 1) -> Record:
    values: dict[str, str | int] = {"users": load.users}
    if load.arrivals_per_s:
        values = {"arrivals": f"{load.arrivals_per_s:g}/s"}
    elif load.pause:
        values["pause"] = load.pause_name
    time_s = load.time_s
    record = Record(
        server="one",
        title="",
        values=values,
        has_ceiling=False,
        has_task=False,
        round=round_,
        began_at="",
        load_average=0.0,
        time_s=time_s,
        load_s=time_s,
        answer_bytes=4,
        tool="siege" if load.step_s else "client",
        tool_step_s=load.step_s,
        mix=[SentRequest("GET", f"/{index}") for index in range(len(load.kinds))] if len(load.kinds) > 1 else [],
        stream="sse" if load.events else "",
        machine=Machine(total_s=2 * time_s, busy_s=0.5 * time_s, steal_s=0.0, idle_s=1.5 * time_s),
        tool_cpu_s=0.01,
        bench_cpu_s=0.01,
    )
    Simulation(load, random.Random(seed), record.requests).run(time_s)  # noqa: S311
    return record


@dataclass(frozen=True)
class Situation:
    """A load, and the true values of its figures; a truth that is None comes from a long simulation."""

    name: str
    load: Load
    truths: dict[str, float | None]


def _closed(name: str, service: Draw, truths: dict[str, float | None], time_s: float, **load: object) -> Situation:
    return Situation(name, Load(time_s, (Kind(service),), **load), truths)  # type: ignore[arg-type]


def _uniform(mean_s: float) -> Draw:
    return lambda draw: draw.random() * mean_s


_TAIL = mostly(0.2, 10.0, 0.05)
SITUATIONS = (
    _closed("CPU-bound, one worker", always(0.04), {"rate_per_s": 25.0}, 6, workers=1, step_s=0.01),
    _closed("CPU-bound, two workers", always(0.04), {"rate_per_s": 50.0}, 4, workers=2, step_s=0.01),
    _closed("CPU-bound, varying by ±80 %", lambda draw: draw.uniform(0.008, 0.072), {"rate_per_s": 25.0}, 6, workers=1),
    _closed("waiting 0.28 s", always(0.28), {"rate_per_s": 25 / 0.28, "response_p50_s": 0.28}, 4, step_s=0.01),
    _closed("waiting, exponential, 0.2 s", exponential(0.2), {"rate_per_s": 125.0, "response_p99_s": 0.921}, 6),
    _closed("two classes: 5 % take 50 times as long", _TAIL, {"rate_per_s": 25 / 0.69, "response_p50_s": 0.2}, 40),
    _closed("two classes: 10 % take 10 times as long", mostly(0.2, 2.0, 0.1), {"rate_per_s": 25 / 0.38}, 8),
    _closed(
        "constant pauses of 10 s",
        always(0.02),
        {"rate_per_s": 10 / 10.02},
        23,
        users=10,
        pause=always(10.0),
        first_pause=_uniform(10.0),
    ),
    _closed(
        "exponential pauses of 1 s",
        always(0.1),
        {"rate_per_s": 25 / 1.1, "response_p99_s": 0.1},
        3,
        pause=exponential(1.0),
        first_pause=exponential(1.0),
    ),
    _closed(
        "exponential pauses of 5 s",
        always(0.1),
        {"rate_per_s": 25 / 5.1},
        12,
        pause=exponential(5.0),
        first_pause=exponential(5.0),
    ),
    _closed(
        "pauses of 0.1 s, two classes",
        _TAIL,
        {"rate_per_s": 25 / 0.79},
        40,
        pause=always(0.1),
        first_pause=_uniform(0.1),
    ),
    _closed(
        "pauses of 1 s, one worker half used",
        always(0.02),
        {"rate_per_s": None, "response_p99_s": None},
        10,
        workers=1,
        pause=exponential(1.0),
        first_pause=exponential(1.0),
    ),
    _closed("arrivals, half of what one worker can do", always(0.05), {"rate_per_s": 10.0, "response_p99_s": None}, 20,
            workers=1, arrivals_per_s=10.0),
    _closed("arrivals, 85 % of two workers, exponential", exponential(0.05), {"rate_per_s": 34.0}, 20, workers=2,
            arrivals_per_s=34.0),
    _closed("arrivals, as many as one worker can do", always(0.05), {"rate_per_s": None}, 15, workers=1,
            arrivals_per_s=20.0),
    _closed("arrivals, twice what one worker can do", always(0.05), {"rate_per_s": 20.0}, 15, workers=1,
            arrivals_per_s=40.0),
    Situation(
        "mix, 5 % of one request lost",
        Load(8, (Kind(always(0.1), 1), Kind(always(0.3), 1, 0.05))),
        {"availability_pct": 97.5, "1 availability_pct": 95.0, "0 response_p99_s": 0.1},
    ),
    Situation(
        "mix on one worker",
        Load(10, (Kind(exponential(0.005), 9), Kind(exponential(0.1), 1)), workers=1),
        {"rate_per_s": 1 / 0.0145, "0 response_p50_s": None},
    ),
    _closed("pings beside a blocked loop", always(0.04), {"ping_p50_s": None}, 6, users=5, workers=1, pings_wait=True),
    _closed("pings of an idle loop", always(0.5), {"ping_p99_s": 0.002}, 6),
    _closed("streams, even: 20 events in 2 s", always(2.0), {"rate_per_s": 250.0, "gap_p50_s": 2.0 / 19}, 8,
            events=20),
    _closed("streams, first event after 8 of 10 s", always(10.0), {"rate_per_s": 50.0, "first_event_p50_s": 8.0}, 27,
            events=20, first_event=0.8),
    _closed("streams, one at a time", always(0.5), {"rate_per_s": 40.0}, 14, workers=1, events=20),
    _closed("streams of 30 s, cut off", always(30.0), {"rate_per_s": 25 * 60 / 30, "gap_p50_s": 30.0 / 59}, 50,
            events=60),
)  # fmt: skip


@dataclass(frozen=True)
class RealLoad:
    """A load of the scripted server, which only waits. On a busy machine, it waits longer, so no figure is right."""

    name: str
    path: str | tuple[str, ...]  # several paths are a mix
    truths: dict[str, float | None]  # a rate that is None is the one at which the server received requests
    load: str = "users = 10"
    tools: tuple[str, ...] = ("siege", "ab", "wrk", "locust", "client")


_PAUSE, _PAUSING = 'users = 100\nkeep_alive = true\npause = "{}"', ("wrk", "locust", "client")
REAL = (
    RealLoad("one at a time", "/queue/0.2", {"rate_per_s": 5.0}),
    RealLoad("waiting 0.2 s", "/slow/0.2", {"rate_per_s": None, "response_p50_s": 0.2}),
    RealLoad("two classes: 10 % take 10 times as long", "/slow/0.1/every/10/slow/0.9", {"rate_per_s": None}),
    RealLoad("constant pauses of 1 s", "/slow/0.1", {"rate_per_s": 100 / 1.1}, _PAUSE.format("1s"), _PAUSING),
    RealLoad(
        "exponential pauses of 1 s", "/slow/0.1", {"rate_per_s": 100 / 1.1}, _PAUSE.format("exponential 1s"), _PAUSING
    ),
    RealLoad("arrivals, half of what it can do", "/queue/0.1", {"rate_per_s": 5.0}, 'arrivals = "5/s"', ("client",)),
    RealLoad("arrivals, twice what it can do", "/queue/0.1", {"rate_per_s": 10.0}, 'arrivals = "20/s"', ("client",)),
    RealLoad(
        "mix, 20 % of one request lost",
        ("/slow/0.1", "/slow/0.1/every/5/reset"),
        {"availability_pct": 90.0, "1 availability_pct": 80.0},
        tools=("siege", "wrk", "locust", "client"),
    ),
)  # fmt: skip


def real_rows(real: RealLoad, sieges: int) -> Iterator["Row"]:
    """Load the server with each tool that can send this load, and judge each siege."""
    for tool in real.tools:
        with tempfile.TemporaryDirectory() as folder:
            path = real.path if isinstance(real.path, str) else [{"path": one} for one in real.path]
            suite = write_suite(Path(folder), path, f'{real.load}\ntool = "{tool}"')
            out = Path(folder) / "r.json"
            words = ["run", suite, "--rounds", str(sieges), "--out", out]
            command = [sys.executable, str(ROOT / "bench.py"), *map(str, words)]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            if ran.returncode not in (0, 1, 3):
                sys.exit(ran.stderr)
            records = [record for record in load_result(out).records if not record.is_ceiling]
            log = received(Path(folder))
        received_per_s = float(np.mean([_received_per_s(record, log) for record in records]))
        truths = {key: received_per_s if truth is None else truth for key, truth in real.truths.items()}
        yield from rows_of(f"{real.name}, {tool}", truths, [values_of(record) for record in records])


def _received_per_s(record: Record, log: list[dict[str, Any]]) -> float:
    """Return the rate at which requests arrived in the last three quarters of a siege (slope of the line)."""
    began_s, load_s = record.load_began_s or 0.0, record.load_s or 0.0
    at_s = sorted(one["at"] for one in log if began_s + load_s / 4 <= one["at"] < began_s + load_s)
    return float(np.polyfit(at_s, range(len(at_s)), 1)[0])


def values_of(record: Record) -> dict[str, tuple[float | None, float | None, float | None]]:
    """Return the value and the interval of each figure; those of a request of a mix begin with its index."""
    (case,) = summarize(result_of([record])).cases
    found = {key: (value.value, value.low, value.high) for key, value in case.metrics.items()}
    for index, request in enumerate(case.requests):
        found |= {f"{index} {key}": (value.value, value.low, value.high) for key, value in request.metrics.items()}
    return found


def truth_of(situation: Situation, key: str) -> float:
    """Return the value of a figure in a long simulation, beginning after its first tenth."""
    load = situation.load
    end_s = LONG_S if not load.pings_wait else LONG_S / 10
    requests = Simulation(load, random.Random(7)).run(end_s)  # noqa: S311
    sender = PING if key.startswith("ping") else LOAD
    _ = None
    name = key.split()[-1]
    rows = zip(requests.sender, requests.request, requests.due_s, requests.ended_s, requests.outcome, strict=True)
    index = int(key.split()[0]) if " " in key else None
    late = [
        (ended_s - due_s, ended_s)
        for who, request, due_s, ended_s, outcome in rows
        if who == sender and due_s > end_s / 10 and outcome == CORRECT and index in (None, request)
    ]
    if name == "rate_per_s":
        return len(late) / (0.9 * end_s)
    percent = int(re.search(r"_p(\d+)_s", name)[1])  # type: ignore[index]
    return float(np.percentile([waited_s for waited_s, _ in late], percent))


@dataclass(frozen=True)
class Row:
    situation: str
    figure: str
    truth: float
    mean: float
    covered_pct: float | None
    unknown: int

    @property
    def bias_pct(self) -> float:
        return 100 * (self.mean / self.truth - 1)

    @property
    def is_missed(self) -> bool:
        covered = self.covered_pct is None or self.covered_pct >= LEAST_COVERAGE_PCT
        return not covered or abs(self.bias_pct) > MOST_BIAS_PCT


def simulated_rows(situation: Situation, sieges: int) -> Iterator[Row]:
    found = [values_of(record_of(situation.load, seed)) for seed in range(sieges)]
    truths = {key: truth_of(situation, key) if known is None else known for key, known in situation.truths.items()}
    yield from rows_of(situation.name, truths, found)


def rows_of(
    name: str, truths: dict[str, float], found: list[dict[str, tuple[float | None, float | None, float | None]]]
) -> Iterator[Row]:
    """Yield a row for each figure whose truth is known, given the figures of each siege."""
    for key, truth in truths.items():
        values = [one[key] for one in found if one.get(key, (None,))[0] is not None]
        means = [value for value, _, _ in values if value is not None]
        edges = [(low, high) for _, low, high in values if low is not None and high is not None]
        held = [low * (1 - 1e-9) <= truth <= high * (1 + 1e-9) for low, high in edges]
        covered = 100 * float(np.mean(held)) if held else None
        mean = float(np.mean(means)) if means else math.nan
        yield Row(name, key, truth, mean, covered, len(found) - len(means))


def table(rows: list[Row], sieges: int, kind: str) -> str:
    lines = [
        f"{sieges} {kind} sieges of each load:",
        "",
        "| load | figure | truth | mean | bias | intervals that hold the truth | no figure |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        covered = "-" if row.covered_pct is None else f"{row.covered_pct:.0f} %"
        mark = " ✗" if row.is_missed else ""
        lines.append(
            f"| {row.situation} | {row.figure.replace('_', ' ')} | {row.truth:.4g} | {row.mean:.4g} | "
            f"{row.bias_pct:+.1f} %{mark} | {covered} | {row.unknown or ''} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only situations whose name contains one of these words")
    parser.add_argument(
        "--sieges", type=int, metavar="N", help="sieges of each situation (default: 200; 3 with --real)"
    )
    parser.add_argument("--real", action="store_true", help="load the scripted server with each tool")
    parser.add_argument("--page", action="store_true", help="write the table to docs/accuracy.md")
    options = parser.parse_args()
    kind, sieges = ("real", options.sieges or 3) if options.real else ("simulated", options.sieges or 200)
    rows = []
    for situation in REAL if options.real else SITUATIONS:
        if not options.words or any(word in situation.name for word in options.words):
            found = (
                real_rows(situation, sieges) if isinstance(situation, RealLoad) else simulated_rows(situation, sieges)
            )
            for row in found:
                rows.append(row)
                covered = "-" if row.covered_pct is None else f"{row.covered_pct:.0f} %"
                print(
                    f"{'✗' if row.is_missed else ' '} {row.situation:<46}{row.figure:<20}{row.truth:9.4g}"
                    f"{row.mean:9.4g}{row.bias_pct:+7.1f} %{covered:>7}{row.unknown:5}",
                    flush=True,
                )
    if options.page:
        before, begin, rest = PAGE.read_text().partition(f"<!-- {kind} -->")
        _, end, after = rest.partition(f"<!-- end of {kind} -->")
        PAGE.write_text(f"{before}{begin}\n\n{table(rows, sieges, kind)}\n\n{end}{after}")


if __name__ == "__main__":
    main()
