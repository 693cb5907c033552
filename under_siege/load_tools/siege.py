"""Siege: how it is called, and what the lines mean that it prints."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from under_siege.load_tools.tool import Driver, LoadSpec, ToolResponse, only_asks

# The user's own siege.conf changes every default, so siege gets a file of ours and a home of ours.
_RC = """\
verbose = true
csv = true
display-id = true
color = off
json_output = false
parser = false
logging = false
show-logfile = false
connection = {connection}
protocol = HTTP/1.1
accept-encoding = identity
zero-data-ok = true
benchmark = true
cache = false
limit = 100000
failures = 1000000000
timeout = 3600
"""

# `   4,HTTP/1.1,200,  0.28,      5,/,0,2026-11-20 04:48:55` (siege 4.0.7 with csv and display-id; the same in the
# sources of 4.0.2 to 4.1.7, some of which colour it even though they were told not to)
_LINE = re.compile(
    r"""
    (?:\x1b\[[\d;]*m)*
    \s*(?P<user>\d{1,6}), HTTP/[\d.]+, (?P<status>\d{3}), \s*(?P<took_s>\d{1,6}(?:\.\d+)?), \s*(?P<size>\d{1,15}),
    .*, \d+, [-\d]+[ ][:\d]+
    (?:\x1b\[[\d;]*m)*
    """,
    re.VERBOSE | re.ASCII,
)


class Siege(Driver):
    """siege, which has a thread for each user."""

    name = program = "siege"
    version_pattern = r"SIEGE (\S+)"
    streams_responses = is_imitated = True
    step_s, least_s, start_s = 0.01, 0.0, 0.0
    packages = MappingProxyType(dict.fromkeys(("apt-get", "dnf", "apk", "pacman", "brew"), "siege"))
    # Without a siege.conf there, siege writes one and two lines about it on stdout.
    settings = MappingProxyType({".siege/siege.conf": _RC.format(connection="close")})

    def refusal(self, order: LoadSpec) -> str:
        """It lets each user send the same number of requests."""
        if order.requests is not None and (order.requests < order.users or order.requests % order.users):
            return (
                f"siege lets each user send the same number of requests: {order.requests} can't be shared by "
                f"{order.users} users; take a multiple of {order.users}"
            )
        if order.threads > 1:
            return f"siege has a thread for each user, not {order.threads}; leave threads out, or take wrk"
        return only_asks(self.name, order)

    def files(self, order: LoadSpec) -> Mapping[str, str]:
        """Its settings."""
        return {"siegerc": _RC.format(connection="keep-alive" if order.keep_alive else "close")}

    def command(self, program: str, home: Path, order: LoadSpec) -> list[str]:
        """The words that start it; its own limit is only for the case that nobody ends it."""
        limit = f"-t{math.ceil(order.time_s) + 30}S"
        if order.requests is not None:
            limit = f"-r{order.requests // order.users}"
        return [program, f"--rc={home / 'siegerc'}", f"-c{order.users}", limit, *order.options, order.url]

    def cpus(self, order: LoadSpec) -> int:
        """It has a thread for each user."""
        return order.users

    def arrival(self, line: str) -> ToolResponse | None:
        """An answer; siege tells how long it took in steps of 10 ms."""
        found = _LINE.fullmatch(line.rstrip())
        if found is None:
            return None
        return ToolResponse(int(found["user"]), int(found["status"]), float(found["took_s"]), int(found["size"]))

    def failures(self, report: str, statuses: Sequence[int]) -> int:
        """Its summary counts answers of 5xx among them."""
        found = re.search(r"Failed transactions:\s*(\d{1,15})\b", report, re.ASCII)
        return max(0, (int(found[1]) if found else 0) - sum(status >= 500 for status in statuses))
