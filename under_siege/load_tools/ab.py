"""ab, the Apache HTTP server's benchmark: how it is called, and what its summary means."""

import csv
import math
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from under_siege.load_tools.tool import (
    Driver,
    LoadSpec,
    ToolOutput,
    Totals,
    only_asks,
    only_one_thread,
    whole_seconds,
)

MOST_PER_S = 500_000  # requests that it has room for, some 40 bytes each; -t alone would mean 50,000 in all
PATIENCE_S = 30  # beyond the burst, for an answer
_PERCENTILES = "percentiles.csv"
_REFUSED, _TIMED_OUT = 111, 119  # its exit statuses then: the error numbers of Linux and of the APR

_LABEL = re.compile(r"^([A-Z][A-Za-z0-9 -]{1,40}):[ \t]+(\d{1,15}(?:\.\d{1,9})?)(?: |$)", re.MULTILINE | re.ASCII)
_KINDS = re.compile(r"(Connect|Receive|Length|Exceptions): (\d{1,15})", re.ASCII)


class Ab(Driver):
    """ab, which has one thread."""

    name = program = "ab"
    packages = MappingProxyType(
        dict.fromkeys(("apt-get", "apk"), "apache2-utils") | {"dnf": "httpd-tools", "pacman": "apache", "brew": "httpd"}
    )
    is_imitated, results = True, (_PERCENTILES,)
    version_words, version_pattern = ("-V",), r"ApacheBench, Version (\S+)"

    def refusal(self, order: LoadSpec) -> str:
        """It has one thread, and wants at least one request for each user."""
        if order.requests is not None and order.requests < order.users:
            return f"ab can't share {order.requests} requests among {order.users} users; take more requests"
        return only_asks(self.name, order) or only_one_thread(self.name, order)

    def command(self, program: str, home: Path, order: LoadSpec) -> list[str]:
        """Whose length is not the first one's is let pass (`-l`), a broken connection is counted (`-r`)."""
        seconds = whole_seconds(order.time_s)
        # -t sets -n to 50,000, so -n has to come after it.
        length = ["-t", str(seconds), "-n", str(MOST_PER_S * seconds)]
        if order.requests is not None:
            length = ["-n", str(order.requests)]
        patience = ["-s", str(math.ceil(order.time_s) + PATIENCE_S)]
        keep = ["-k"] if order.keep_alive else []
        words = [program, "-q", "-l", "-r", "-c", str(order.users), *length, *patience, *keep]
        return [*words, "-e", str(home / _PERCENTILES), *order.options, order.url]

    def totals(self, output: ToolOutput, order: LoadSpec) -> Totals | None:
        """Its rate is not read: complete requests and the time that they took are."""
        labels = _labels(output.stdout)
        complete, took_s = labels.get("Complete requests"), labels.get("Time taken for tests")
        if complete is None or not took_s:
            return _without_figures(output, order)
        kinds = {kind: int(count) for kind, count in _KINDS.findall(output.stdout)}
        # What broke off while it was read (with -r) is among the complete ones; what else went wrong is not.
        broken = min(int(complete), kinds.get("Receive", 0))
        wrong = min(int(labels.get("Non-2xx responses", 0)), int(complete) - broken)
        answered = int(complete) - broken
        unanswered = broken + kinds.get("Connect", 0) + kinds.get("Exceptions", 0)
        nothing_came = labels.get("Total transferred") == 0  # then the connections themselves were refused
        percentiles = _percentiles_s(output.files, int(complete)) if answered and not nothing_came else {}
        kept = labels.get("Keep-Alive requests")
        body = labels.get("HTML transferred")
        return Totals(
            right=0 if nothing_came else answered - wrong,
            wrong_status=wrong,
            unanswered=unanswered + (answered if nothing_came else 0),
            connect_errors=kinds.get("Connect", 0) + (unanswered - kinds.get("Connect", 0) if nothing_came else 0),
            took_s=took_s,
            p50_s=percentiles.get(50),
            p95_s=percentiles.get(95),
            p99_s=percentiles.get(99),
            max_s=percentiles.get(100),
            kept_alive=None if kept is None else int(kept),
            body_bytes=None if body is None else int(body),
        )


def _without_figures(output: ToolOutput, order: LoadSpec) -> Totals | None:
    """It gives up, and says nothing but why."""
    if output.status == _REFUSED:
        return Totals(0, 0, unanswered=1, connect_errors=1)
    if output.status == _TIMED_OUT:
        return Totals(0, 0, unanswered=order.users)
    return None


def _labels(report: str) -> dict[str, float]:
    """The first of each: `Time per request` stands there twice."""
    found: dict[str, float] = {}
    for label, value in _LABEL.findall(report):
        found.setdefault(label, float(value))
    return found


def _percentiles_s(files: Mapping[str, str], complete: int) -> dict[int, float]:
    """From `-e`: a line for each per cent, in milliseconds with three decimals.

    Of few requests it reads the high ones behind the last (ab.c, `output_results`); that one is the right one there.
    """
    found = {}
    for row in csv.reader(files.get(_PERCENTILES, "").splitlines()):
        if len(row) == 2 and re.fullmatch(r"\d{1,3}", row[0], re.ASCII) and re.fullmatch(r"\d{1,9}\.\d+", row[1], re.A):
            found[int(row[0])] = float(row[1]) / 1000
    return {
        percent: found[100] if 100 in found and int(0.5 + complete * percent / 100) >= complete else value_s
        for percent, value_s in found.items()
    }
