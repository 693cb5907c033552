#!/usr/bin/env python3
"""Counts in many runs how often the fault of each published benchmark is flagged by its rule on this machine.

Runs the suites in the smallest forms that show the faults, or with --quick in their own quick ones. Whatever takes
part twice must never be called different; where the machine had too much other work to judge that, once more is run.
Ends with 1 if a fault was missed, such a pair was called different, or a suite did not run; otherwise with 3 if no
pair of some suite could be judged.
With --keep the results stay, and a run whose result is there is not measured again.
"""

import argparse
import itertools
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.model.record import Result, load
from common.report.figures.estimates import differ
from common.report.judging.comparison import summarize
from common.report.judging.summary import Summary
from common.report.judging.verdict import OK
from common.report.words.notes import notes

ROOT = Path(__file__).resolve().parents[1]
QUICK: dict[str, tuple[str, ...]] = {
    "long-task": ("suites/long-task", "--quick"),
    "wsgi": ("suites/wsgi", "--quick"),
    "static": ("suites/static", "--quick"),
    "static-ports": ("suites/static/ports.toml", "--quick"),
    "aiohttp": ("suites/aiohttp", "--quick"),
    "webdav": ("suites/webdav", "--quick"),
    "webdav-stressor": ("suites/webdav/stressor.toml", "--quick"),
}


def _only(suite: str, servers: str, *words: str) -> tuple[str, ...]:
    """The words of a run of some servers of a suite."""
    return *(f"suites/{suite}:{server}" for server in servers.split()), "--quick", *words


# Beside a pair of the same there are others: of two alone one in twenty would be told apart by chance.
SMALL: dict[str, tuple[str, ...]] = {
    "long-task": _only("long-task", "not_awaited not_awaited_right_answer", "--rounds", "2", "--time", "4s"),
    "wsgi": _only("wsgi", "waitress waitress-again gunicorn-sync cheroot node-own", "--rounds", "2"),
    "static": _only("static", "whitenoise whitenoise-again compiled flask published", "--rounds", "2", "--time", "2s"),
    "static-ports": _only("static/ports.toml", "whitenoise", "--rounds", "1"),
    "aiohttp": ("suites/aiohttp/noise.toml", "--rounds", "2", "--time", "2s"),
    "webdav": _only("webdav", "cheroot stores_nothing", "--rounds", "1", "--users", "5", "--time", "3s"),
    "webdav-stressor": _only("webdav/stressor.toml", "cheroot", "--rounds", "1"),
}


FORMS = {"quick": QUICK, "small": SMALL}
RIGHT, WRONG, UNDECIDED = 0, 1, 3  # it ends with one of these, as bench.py does


class Seen:
    """What one run has found."""

    def __init__(self, result: Result) -> None:
        self.result, self.comparison = result, summarize(result)

    def flagged(self, code: str, server: str, **values: object) -> bool:
        """Whether every case of the server with these values has that flag."""
        cases = [one for one in self.comparison.cases if one.case.server == server and _has(one, values)]
        return bool(cases) and all(code in {reason.code for reason in one.reasons} for one in cases)

    def noted(self, server: str, words: str) -> bool:
        """Whether a note about the server says so."""
        return any(about == server and words in text for about, text in notes(self.result, self.comparison))

    def served(self, server: str) -> bool:
        """Whether its cases gave answers, all of them the right ones."""
        cases = [one for one in self.comparison.cases if one.case.server == server]
        return bool(cases) and all(one.rate_per_s is not None for one in cases)

    def twice(self, one: Callable[[Summary], object]) -> Iterator[bool | str]:
        """For each pair of the same whether it is called different, or why it can't be judged; `one` names the same."""
        rated = zip(self.comparison.cases, self.comparison.measured["rate_per_s"], strict=True)
        cases = [(case, rate, case.verdict == OK and rate is not None and rate.degrees) for case, rate in rated]
        for (first, rate, is_sound), (second, other, is_sound_too) in itertools.combinations(cases, 2):
            if first.case.load != second.case.load or one(first) != one(second):
                continue
            rivals = sum(sound and case.case.load == first.case.load for case, _, sound in cases)  # as for ranks
            if is_sound and is_sound_too:
                yield differ(rate, other, rivals * (rivals - 1) // 2)
            else:
                yield ", ".join(dict.fromkeys(reason.code for case in (first, second) for reason in case.reasons))


def _has(one: Summary, values: dict[str, object]) -> bool:
    return all(str(one.case.get(name)) == str(value) for name, value in values.items())


@dataclass(frozen=True)
class Fault:
    """What a published benchmark did not see, the rule that finds it, and whether that found it."""

    what: str
    rule: str
    found: Callable[[Seen], bool]


def _flag(what: str, rule: str, code: str, server: str, **values: object) -> Fault:
    return Fault(what, rule, lambda seen: seen.flagged(code, server, **values))


FAULTS: dict[str, tuple[Fault, ...]] = {
    "long-task": (
        _flag("not awaited, and the body empty", "wrong answer", "wrong_answer", "not_awaited"),
        _flag("not awaited, with the right body", "above the ceiling", "above_ceiling", "not_awaited_right_answer"),
        _flag("not awaited, with the right body", "sooner than the task", "too_fast", "not_awaited_right_answer"),
    ),
    "wsgi": (
        _flag("929 bytes beside 973", "wrong answer", "wrong_answer", "node-own"),
        Fault("keep-alive ignored", "note on connections", lambda seen: seen.noted("gunicorn-sync", "closed each")),
    ),
    "static": (
        _flag("WhiteNoise has not answered", "wrong answer", "wrong_answer", "published"),
        Fault("what is compiled has served", "header of each answer", lambda seen: seen.served("compiled")),
    ),
    "static-ports": (_flag("16,384 ports, here 2,000", "out of ports", "ports", "whitenoise"),),
    "aiohttp": (),
    "webdav": (
        _flag("cheroot 8.1.0 sleeps", "a timer and not work", "timer", "cheroot", cheroot="8.1.0", users=5),
        _flag("nothing is stored", "wrong answer", "wrong_answer", "stores_nothing"),
    ),
    "webdav-stressor": (
        _flag("five servers are equal", "the load tool was the limit", "generator", "cheroot", cheroot="8.0.0"),
    ),
}


def _by_name(one: Summary) -> object:
    """Such as waitress and waitress-again at the same values."""
    return one.case.server.removesuffix("-again"), one.case.values


def _by_version(one: Summary) -> object:
    """Such as 3.8.6 and 3.8.6.0 at the same values."""
    values = {name: re.sub(r"(\.0)+$", "", str(value)) for name, value in one.case.values}
    return one.case.server, tuple(values.items())


TWICE: dict[str, Callable[[Summary], object]] = {"wsgi": _by_name, "static": _by_name, "aiohttp": _by_version}


class Count:
    """What all runs of one suite have found."""

    def __init__(self, suite: str) -> None:
        self.suite, self.seen, self.took_s, self.problems = suite, list[Seen](), list[float](), list[str]()

    def run(self, number: int, form: str, folder: Path) -> None:
        """Runs it, and once more if it has pairs of which none could be judged."""
        if self._once(f"{number}", form, folder) and not self._pairs(self.seen[-1:], bool) and self.suite in TWICE:
            self._once(f"{number}-again", form, folder)

    def _once(self, number: str, form: str, folder: Path) -> bool:
        out, began_s = folder / f"{self.suite}-{form}-{number}.json", time.monotonic()
        if not out.exists():
            words = [*FORMS[form][self.suite], "--quiet", "--out", str(out)]
            ran = subprocess.run([sys.executable, "bench.py", "run", *words], cwd=ROOT, capture_output=True, text=True)
            self.took_s.append(time.monotonic() - began_s)
            if ran.returncode not in (0, 1, 3) or not out.exists():  # a fault that is flagged ends it with 1 or 3
                last = [line for line in (ran.stderr + ran.stdout).splitlines() if line.strip()][-1:]
                self.problems.append(f"run {number} ended with {ran.returncode}: {''.join(last)[:200]}")
                say(f"{self.suite} {self.problems[-1]}")
                return False
        self.seen.append(Seen(load(out)))
        missed = [f"{fault.what} ({fault.rule})" for fault in FAULTS[self.suite] if not fault.found(self.seen[-1])]
        verdicts = Counter(f"{one.case.server} {one.verdict}" for one in self.seen[-1].comparison.cases)
        told = f"MISSED {missed}" if missed else "right"
        say(f"{self.suite} {number}: {told} {dict(verdicts)} in {time.monotonic() - began_s:.0f} s")
        return True

    def _pairs(self, seen: Sequence[Seen], kind: type[bool | str]) -> list[bool | str]:
        found = [pair for one in seen for pair in one.twice(TWICE[self.suite])] if self.suite in TWICE else []
        return [pair for pair in found if isinstance(pair, kind)]

    def told(self) -> Iterator[tuple[str, int]]:
        """A line for each fault, and RIGHT if it was flagged in all runs; the same for pairs, and what went wrong."""
        runs = len(self.seen) + len(self.problems)
        for fault in FAULTS[self.suite]:
            times = sum(map(fault.found, self.seen))
            yield (
                f"{self.suite:16}{fault.what:34}{fault.rule:30}flagged {times} of {runs}",
                RIGHT if 0 < runs == times else WRONG,
            )
        if self.suite in TWICE:
            judged, reasons = self._pairs(self.seen, bool), Counter(self._pairs(self.seen, str))
            told = f"called different {sum(map(bool, judged))} of {len(judged)}"
            told += "".join(f"; {times} not judged ({why})" for why, times in reasons.items())
            status = WRONG if any(judged) else RIGHT if judged else UNDECIDED
            yield f"{self.suite:16}{'the same server twice':34}{'told apart':30}{told}", status
        for problem in self.problems:
            yield f"{self.suite:16}{problem}", WRONG


def main() -> None:
    """Runs all, says after each how it went, and at the end how often each fault was flagged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(QUICK)}; all, if none is named")
    parser.add_argument("--runs", type=int, default=5, help="of each; 5, if nothing is said")
    parser.add_argument("--quick", action="store_true", help="the quick forms in place of the smallest ones")
    parser.add_argument("--keep", type=Path, help="a folder for the results; what is there is taken as it is")
    options = parser.parse_args()
    if unknown := [name for name in options.suites if name not in QUICK]:
        parser.error(f"there is no {unknown[0]!r}: expected {', '.join(QUICK)}")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    counts = [Count(suite) for suite in options.suites or QUICK]
    form = "quick" if options.quick else "small"
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        began_s = time.monotonic()
        try:
            for number in range(1, options.runs + 1):
                for count in counts:
                    count.run(number, form, folder)
                say(f"{number} of {options.runs} runs of all in {(time.monotonic() - began_s) / 60:.1f} min")
        finally:
            lines = [line for count in counts for line in count.told()]
            print("\n".join(line for line, _ in lines))
            for count in counts:
                if count.took_s:
                    print(f"{count.suite:16}a run took {min(count.took_s):.0f} to {max(count.took_s):.0f} s")
    statuses = {status for _, status in lines}
    sys.exit(WRONG if WRONG in statuses else max(statuses))


def _stop(number: int, _: object) -> NoReturn:
    """Ends what runs; what was found is told all the same."""
    sys.exit(128 + number)


def say(line: str) -> None:
    """As progress, at once."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
