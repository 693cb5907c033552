"""Find out whether all servers are equally fast because something else limits them all."""

from collections.abc import Mapping, Sequence
from typing import Any

from under_siege import formatting
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import OK
from under_siege.record.case import PACES, axis

NONE = "No recommendation by throughput"
IDLE_CPUS = 0.3  # a server that uses fewer CPUs than this mostly waits
QUEUED = 2.0  # responses that take this many times as long as without other users wait for each other


def shared_limit(cases: Sequence[Summary], alone_s: Mapping[Any, float | None]) -> str:
    """Return a headline that says what limits all servers alike, or an empty string if throughput differs.

    Args:
        cases: all cases of one load.
        alone_s: the response time of an idle server, by the work of a case.
    """
    if len({case.server for case in cases}) < 2 or any(case.task for case in cases):
        return ""
    if any(case.verdict != OK or case.rank != 1 for case in cases):
        return ""
    busy = [case.rate * case.cpu_s_per_transaction for case in cases if case.cpu_s_per_transaction]
    if len(busy) < len(cases) or max(busy) > IDLE_CPUS:
        return ""
    share = f"each uses at most {formatting.share(max(busy))} of a CPU"
    waits = [(case.response_s.p50, alone_s.get(case.case.work)) for case in cases if case.response_s]
    if waits and all(p50_s and idle_s and p50_s > QUEUED * idle_s for p50_s, idle_s in waits):
        return f"{NONE}: all servers wait for something they share, such as a database or another service; {share}."
    values = dict(cases[0].case.values)
    if paces := [axis(name).label(values[name]) for name in PACES if name in values]:
        return f"{NONE}: every server keeps up with this load ({paces[0]}); {share}."
    return f"{NONE}: {cases[0].users} users are too few to reach the limit of any server; {share}. Use more --users."
