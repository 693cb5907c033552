"""Drive the bench's own client, which can do what some tools can't: users who pause or log in, and a fixed rate."""

import base64
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, cast

from under_siege.load.request import CLIENT, Pause, Request, RightAnswer, SetupRequest
from under_siege.load.simulated_user import ARRIVING
from under_siege.load.tool import Driver, LoadSpec
from under_siege.paths import script
from under_siege.record.record import CaseFailedError
from under_siege.record.requests import LARGEST, OUTCOMES, Outcome, Requests, Sender

COMMAND = [sys.executable, *script("client")]
AFTER_A_FAILURE_S = 0.1  # pause of a user after a request that was not answered correctly
_ROW = re.compile(
    r"(?P<user>\d{1,7}),(?P<request>\d{1,4}),(?P<due_s>\d+\.\d{6}),(?P<sent_s>\d+\.\d{6}),(?P<ended_s>\d+\.\d{6}),"
    rf"(?P<status>\d{{1,3}}),(?P<size>\d{{1,15}}),(?P<outcome>{'|'.join(OUTCOMES)})\|(?P<problem>.*)",
    re.ASCII,
)
_EVENTS = re.compile(r"events,(\d{1,7}),(\d[\d ]*)", re.ASCII)
_RECONNECTED = re.compile(r"reconnected,(\d{1,15})", re.ASCII)
_STALLS = re.compile(r"stalls,([\d. ]*)", re.ASCII)
_MOST_PROBLEMS = 20  # distinct ones
_digits = itertools.cycle(range(1, 10))  # distinguish the values of the clients that run at the same time
SET_UP, SETUP_FAILED = "set up", "failed|"  # lines that the client prints after the setup; a reason follows the second


def setup_line(setup: Sequence[SetupRequest], url: str, users: int) -> bytes:
    """Return the line before the order, for users who send requests before the load; the client answers it.

    Args:
        url: of the server.
        users: 0 for an open loop.
    """
    requests = [{"path": one.path, **_fields(one.request), "status": one.status} for one in setup]
    line = {"setup": requests, "url": url, "users": users or ARRIVING, "digit": next(_digits)}
    return json.dumps(line).encode() + b"\n"


def must_be_set_up(line: str) -> None:
    """Raise CaseFailedError if the client says that the setup failed, or has exited instead."""
    if line != SET_UP:
        reason = line.removeprefix(SETUP_FAILED) if line.startswith(SETUP_FAILED) else "setup: the client exited"
        raise CaseFailedError("setup_failed", reason)


def _fields(request: Request) -> dict[str, Any]:
    body = base64.b64encode(request.body).decode()
    return {"method": request.method, "headers": request.headers, "body": body}


def order(
    requests: Sequence[tuple[str, Request, RightAnswer]],
    begin_s: float,
    *,
    turns: Sequence[int] = (0,),
    users: int = 0,
    due_s: Sequence[float] = (),
    count: int | None = None,
    pause: Pause | None = None,
    seed: int = 0,
    stagger_s: float = 0.0,
    timeout_s: float = 3600.0,
    failure_pause_s: float = AFTER_A_FAILURE_S,
    keep_alive: bool = False,
    posts_jobs: bool = False,
    is_precise: bool = False,
) -> bytes:
    """Return the line that the client reads; see `subprocess_scripts/client.py` for its keys.

    Args:
        requests: the URL, the request and the correct response of each.
        begin_s: the start of the load, as a time of `time.monotonic`.
        turns: indexes into `requests`, in the order in which they are sent.
    """
    line = {
        "requests": [{"url": url, **_fields(request), "right": right.to_json()} for url, request, right in requests],
        "order": list(turns),
        "begin_s": begin_s,
        "users": users,
        "due_s": list(due_s),
        "count": count,
        "pause": astuple(pause) if pause else None,
        "seed": seed,
        "stagger_s": stagger_s,
        "timeout_s": timeout_s,
        "failure_pause_s": failure_pause_s,
        "keep_alive": keep_alive,
        "posts_jobs": posts_jobs,
        "is_precise": is_precise,
        "digit": next(_digits),
    }
    return json.dumps(line).encode() + b"\n"


class ClientOutput:
    """Add the requests that the client reports to a table of requests.

    Args:
        began_s: the start of the load, as a time of `time.monotonic`.
        sender: of the rows.
    """

    def __init__(
        self, requests: Requests, began_s: float, sender: Sender = "load", *, has_streams: bool = False
    ) -> None:
        self._requests = requests
        self._began_s = began_s
        self._sender = sender
        self._has_streams = has_streams
        self._waits_us: dict[int, list[int]] = {}  # of the streams in progress, by user
        self._problems = Counter[str]()
        self.reconnected, self.stalls_s = 0, list[float]()

    def take(self, line: str) -> tuple[int, float, str] | None:
        """Parse a line; return the user, the end and the outcome of the request that it reports, if any."""
        if match := _ROW.fullmatch(line):
            return self._add(match)
        if match := _EVENTS.fullmatch(line):
            waits_us = self._waits_us.setdefault(int(match[1]), [])
            waits_us.extend(min(int(wait_us), 10**12) for wait_us in match[2].split())
        elif match := _RECONNECTED.fullmatch(line):
            self.reconnected = int(match[1])
        elif match := _STALLS.fullmatch(line):
            self.stalls_s = [float(stall_s) for stall_s in match[1].split()]
        elif line.strip() not in ("", "ready", SET_UP):
            raise ValueError(f"unknown line of the client: {line[:200]!r}")
        return None

    def _add(self, match: re.Match[str]) -> tuple[int, float, str]:
        user, outcome = int(match["user"]), cast(Outcome, match["outcome"])
        due_s, sent_s, ended_s = (float(match[name]) - self._began_s for name in ("due_s", "sent_s", "ended_s"))
        first_us, *gaps_us = self._waits_us.pop(user, None) or [-1]
        if match["problem"] and len(self._problems) < _MOST_PROBLEMS:
            self._problems[match["problem"]] += 1
        self._requests.add(
            self._sender,
            user=user,
            request=int(match["request"]),
            due_s=due_s,
            sent_s=sent_s,
            ended_s=ended_s,
            status=int(match["status"]),
            size_bytes=min(int(match["size"]), LARGEST),
            outcome=outcome,
            problem=match["problem"],
            events=(first_us, gaps_us) if self._has_streams else None,
        )
        return user, ended_s, outcome

    @property
    def problems(self) -> list[str]:
        """Return the distinct problems, the most frequent first."""
        return [problem for problem, _ in self._problems.most_common()]


class Client(Driver):
    """The bench's own client, which runs in a process of its own, verifies and reports every response."""

    name, program = CLIENT, sys.executable
    version_options = ("-I", "-c", "import aiohttp; print('aiohttp', aiohttp.__version__)")
    version_pattern = r"(aiohttp \d\S*)"
    streams_responses = waits_to_begin = counts_requests = sends_mixes = can_pause = sends_arrivals = True
    reads_streams = varies_requests = is_own = True
    fixed_threads = "one thread"
    least_s = start_s = 0.0

    def refusal(self, spec: LoadSpec) -> str:
        return f"{self.name} accepts no load-tool options; remove `options`" if spec.options else super().refusal(spec)

    def command(self, program: str, home: Path, spec: LoadSpec) -> list[str]:  # noqa: ARG002
        return [program, *COMMAND[1:]]

    def order(self, spec: LoadSpec, begin_s: float) -> bytes:
        sent = [(spec.url_of(path), one) for path, one in spec.mix] or [(spec.url, spec.request)]
        rights = spec.rights or (RightAnswer(),) * len(sent)
        return order(
            [(url, request, right) for (url, request), right in zip(sent, rights, strict=True)],
            begin_s,
            turns=spec.order or (0,),
            users=0 if spec.arrivals_per_s else spec.users,
            due_s=spec.due_s(),
            count=spec.requests,
            pause=spec.pause,
            seed=spec.seed,
            stagger_s=spec.stagger_s,
            timeout_s=spec.timeout_s,
            keep_alive=spec.keep_alive,
            posts_jobs=self.name != CLIENT,
        )
