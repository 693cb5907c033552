"""State how and where a result was measured."""

import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from under_siege import formatting
from under_siege.judge.summary import Summary
from under_siege.record.case import HasCase
from under_siege.record.record import Record
from under_siege.record.result import Environment, Result
from under_siege.show.case_names import MOST_NAMES, CaseNames, labels


def identity(result: Result) -> dict[str, Any]:
    """Return the keys with which the JSON of every result begins. They must not change, because users rely on them."""
    return {name: getattr(result, name) for name in ("schema", "command", "began_at", "environment")}


def began_at(result: Result) -> str:
    """Return the start of the measurement, such as `2026-11-26 05:24:35 UTC`."""
    return result.began_at.replace("T", " ").replace("+00:00", " UTC")


def interruption(result: Result) -> str:
    """Return a sentence about a run that was interrupted, or an empty string."""
    if not result.planned:
        return ""
    missing, planned = result.unmeasured(), CaseNames(result.planned)
    if not missing:
        return "Interrupted: every case was measured, but less often than planned."
    names, count = formatting.listed(list(map(planned.name, missing)), MOST_NAMES), len(result.planned)
    of_planned = f"{len(missing)} of {formatting.counted(count, 'case')}"
    return f"Interrupted, so no conclusion: {of_planned} not measured ({names})."


def facts(result: Result) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each fact that is needed to reproduce the result: the command and the machine."""
    yield "command", shlex.join(result.command)
    yield from facts_of_machine(result.environment)


def facts_of_machine(machine: Environment) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each fact about a machine and its software."""
    yield "CPU", f"{machine.cpu_model}, {machine.available_cpus:g} of {machine.cpus} CPUs"
    yield "memory", f"{machine.memory_bytes / 1e9:.0f} GB"
    yield "system", machine.system
    for version, build in machine.pythons.items():
        yield f"Python {version}", build
    for python, packages in machine.packages_of.items():
        name = f"packages of Python {python}" if len(machine.packages_of) > 1 else "packages"
        yield name, ", ".join(f"{package} {version}" for package, version in packages.items())
    yield from ((tool, version) for tool, version in machine.tools.items() if version)
    if machine.commit:
        yield "Under Siege", f"commit {machine.commit}"


def of_siege(result: Result, cases: Sequence[Summary]) -> str:
    """Return the conditions of all cases, such as `primes · 25 users · Python 3.11.7 · 2 cores · 2 rounds of 4 s`."""
    points = {case.case for case in cases}
    records = [record for record in result.records if record.case in points]
    facts = [*in_common(cases), cores(result), rounds_of(cases, records) if records else ""]
    return " · ".join(filter(None, facts))


def of_traces(result: Result) -> str:
    """Return the conditions of the traces as text, such as `primes · 8 requests at the same moment · 2 cores`."""
    requests = max((len(trace.requests.sent_s) for trace in result.traces), default=0)
    sent = f"{formatting.counted(requests, 'request')} at the same moment"
    return " · ".join([*in_common(result.traces, without=("workers", "users")), sent, cores(result)])


def cores(result: Result) -> str:
    """Return how many CPUs the servers and the load had, such as `3 cores for servers, 1 for the load`."""
    count = result.environment.available_cpus
    shared = " shared with the bench" if result.environment.cpu_limit else ""
    others = f" for servers, {result.environment.load_cpus} for the load" if result.environment.load_cpus else ""
    return f"{count:g} {'core' if count == 1 else 'cores'}{shared}{others}"


def in_common(measured: Sequence[HasCase], without: Collection[str] = ("workers",)) -> list[str]:
    """Return the labels of the values that all cases share, such as `primes` and `25 users`."""
    differing = CaseNames(measured).axes
    first = measured[0].case
    return labels(first, [name for name, _ in first.values if name not in (*differing, *without)])


def rounds_of(cases: Sequence[Summary], records: Sequence[Record]) -> str:
    """Return the number and length of the rounds, such as `2 to 5 rounds of 3 s to 6 s`."""
    fewest, most = min(case.rounds for case in cases), max(case.rounds for case in cases)
    known_s = sorted(record.load_s or record.time_s for record in records)
    shortest, longest = (_briefly(value_s) for value_s in (known_s[0], known_s[-1]))
    times = longest if shortest == longest else f"{shortest} to {longest}"
    count = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"{count} {'rounds' if most > 1 else 'round'} of {times}"


def _briefly(value_s: float) -> str:
    return formatting.duration(round(value_s) if value_s >= 2 else round(value_s, 1))
