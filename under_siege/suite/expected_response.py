"""Describe the expected response to a request, and try a task before any server starts."""

import itertools
import os
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from common.errors import BadInputError
from under_siege.formatting import legible
from under_siege.host.helper_process import HelperDiedError, HelperError, answer
from under_siege.host.interpreter import Interpreter
from under_siege.load.body_rule import BYTES, JSON, SAME, BodyRule, as_json
from under_siege.load.http_client import HttpResponse
from under_siege.load.request import GET, Request, RightAnswer, Stream
from under_siege.load.streams import EventCheck, StreamResponse, error_instead_of
from under_siege.paths import script
from under_siege.record.case import Value
from under_siege.record.record import SentRequest
from under_siege.secrets import is_secret_name, masked

TRIAL_LIMIT_S = 60.0
LEAST_TIMEOUT_S = 15.0
OTHER_REQUESTS = 10  # number of queued check requests that the timeout of a response allows for
_MOST_COUNTED_BYTES = 100_000  # of a body in which numbers may count requests
JOB_QUEUE_S = 0.05  # time that the timeout allows for queueing, per job

Work = tuple[tuple[str, Value], ...]


class Files:
    """The files of a directory, requested at random. The expected body is the contents of the chosen file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        paths = sorted(Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
        self.sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths}  # in bytes, by name
        self._names = list(self.sizes)
        self._random = random.Random(0)  # noqa: S311 (not for secrets)

    def choose(self) -> str:
        return self._random.choice(self._names)

    @staticmethod
    def path(template: str, name: str) -> str:
        """Return the path or URL in which the encoded name of the file replaces `{file}`."""
        return template.replace("{file}", quote(name))


class Mix:
    """Several requests, each with its path and its expected response, and the order in which they are sent."""

    def __init__(self, order: Sequence[int], requests: "Sequence[tuple[str, Expectation]]") -> None:
        self.order, self.requests = order, requests
        self.turns = itertools.cycle(range(len(requests)))  # checks send every request equally often


class KeyOrder:
    """Whether a process of an application returned the expected JSON with other bytes, such as another order of keys.

    Then bodies are compared as JSON from that response on, because such bodies are equal.
    """

    differs = False


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected response, and how long the task takes without a server."""

    answer: bytes
    task_s: float
    cpu_s: float
    status: int = 200
    strictest: BodyRule = BYTES  # the rule, unless the order of keys differs
    request: Request = GET
    headers: tuple[tuple[str, str], ...] = ()
    files: Files | None = None  # files whose names complete the URL
    mix: Mix | None = None  # several requests, each with its own expectation
    number: int = 0  # number of the request in the mix
    of_a_job: bool = False
    stream: Stream | None = None
    events: tuple[bytes, ...] = ()  # the expected events of a stream
    event_count: int | None = None  # their number, or None if any number is correct
    counters: tuple[int, ...] = ()  # which numbers in the body grow with each request, counted from 0
    cycle_s: float = 0.0  # seconds of a user's cycle of requests besides the response, such as its pause
    key_order: KeyOrder | None = None  # None if a suite says how bodies are compared

    @property
    def rule(self) -> BodyRule:
        """Return how bodies are compared now."""
        is_free = self.strictest.mode == SAME and self.key_order is not None and self.key_order.differs
        return BodyRule(JSON) if is_free else self.strictest

    @property
    def size_bytes(self) -> int:
        """Return the size of a correct body, or -1 if correct bodies may have different sizes."""
        is_known = self.rule.mode == SAME and not (self.files or self.mix or self.stream)
        return len(self.answer) if is_known else -1

    @property
    def first_stream(self) -> Stream | None:
        """Return how the streams of the only request, or of the first of a mix, are read; None if there are none."""
        return next((each.stream for _, each in self.each("") if each.stream), self.stream)

    @property
    def read_as(self) -> tuple[str, list[str]]:
        """Return the kind of stream as which responses are read, and which events count; see `Record.stream`."""
        stream = self.first_stream
        return (stream.kind, list(stream.text)) if stream else ("", [])

    @property
    def right(self) -> RightAnswer:
        """Return what a client needs to verify responses itself; during a load, the order of keys may change."""
        rule = self.rule if self.key_order is None or self.rule.mode != SAME or self.stream else BodyRule(JSON)
        return RightAnswer(self.status, rule, self.answer, self.headers, self.stream, self.events, self.event_count)

    def each(self, url: str) -> "list[tuple[str, Expectation]]":
        """Return the URL and the expected response of each request of the mix, or of the only request."""
        requests = self.mix.requests if self.mix else [("", self)]
        return [(url.removesuffix("/") + path if path else url, expectation) for path, expectation in requests]

    def other_statuses(self) -> list[int]:
        """Return the statuses of correct responses other than `status`."""
        return sorted({expectation.status for _, expectation in self.each("")} - {self.status})

    def sent_mix(self) -> list[SentRequest]:
        """Return the requests of a mix, or an empty list if all requests are equal."""
        if self.mix is None:
            return []
        return [
            SentRequest(each.request.method, path, each.status, round(each.task_s, 6))
            for path, each in self.mix.requests
        ]

    def for_request(self, url: str, turn: int | None = None) -> tuple[str, "Expectation"]:
        """Return the URL and the expected response for this turn of the mix or, without a turn, for the next check."""
        if self.mix is not None:
            index = next(self.mix.turns) if turn is None else self.mix.order[turn % len(self.mix.order)]
            path, expectation = self.mix.requests[index]
            return url.removesuffix("/") + path, replace(expectation, headers=self.headers)
        if self.files is None:
            return url, self
        name = self.files.choose()
        contents = (self.files.folder / name).read_bytes()
        return self.files.path(url, name), replace(self, answer=contents, files=None)

    def problem(self, answer: HttpResponse) -> str:
        """Return how a response differs from the expected response, or an empty string if the response is correct.

        If only the order of keys differs, compare JSON from now on, unless a suite says how to compare.
        """
        if self.key_order is not None and self.is_equal_as_json(answer):
            self.key_order.differs = True
        if answer.status != self.status:
            return f"{answer.described()} instead of {self.described()}"
        if isinstance(answer, StreamResponse):
            if difference := self.problem_of_events(answer.events):
                return f"{answer.described()}: {difference}"
        elif difference := self.rule.problem(answer.body, self.answer):
            if self.rule.mode != SAME:
                return f"{answer.described()}: {difference}"
            note = " (equal as JSON, but not byte for byte)" if self.is_equal_as_json(answer) else ""
            kind = {name: value for name, value in answer.headers.items() if name == "content-type"}
            right = HttpResponse(self.status, self.answer, kind)
            return f"{answer.described()} instead of {right.described()}{note or answer.difference(right)}"
        elif error := error_instead_of(self.right, answer.body, answer.headers.get("content-type", "")):
            return f"{answer.status} with {error}"
        for name, expected in self.headers:
            if (value := answer.headers.get(name.lower())) != expected:
                if is_secret_name(name):  # no colon after the name, because the rest of the line would be masked
                    received = f"no {name}" if value is None else f"another {name}, which is masked"
                    return f"{received}; another server may have answered"
                received = f"no {name}" if value is None else f"{name}: {legible(masked(value))[:100]}"
                return f"{received} instead of {name}: {expected}; another server may have answered"
        return ""

    def is_equal_as_json(self, answer: HttpResponse) -> bool:
        """Return whether only the bytes of the body differ from the expected ones, as with another order of keys."""
        if self.rule.mode != SAME or self.stream or answer.status != self.status or answer.body == self.answer:
            return False
        return as_json(answer.body) == as_json(self.answer)

    def problem_of_events(self, events: Sequence[bytes]) -> str:
        """Return how the events of a stream differ from the expected events, or an empty string."""
        assert self.stream is not None
        check = EventCheck(self.rule, self.events, self.event_count, self.stream)
        for event in events:
            check.take(event)
        return check.problem()

    def fits(self, status: int, body: bytes) -> bool:
        """Return whether the status and the body are correct."""
        return status == self.status and not self.right.rule.problem(body, self.answer)

    def described(self) -> str:
        """Describe the expected response for a message."""
        has_right_body = self.rule.mode == SAME
        return HttpResponse(self.status, self.answer, {}).described() if has_right_body else str(self.status)

    def repeated(self, bodies: Sequence[bytes]) -> int | None:
        """Return a number that counts requests, but occurs in several bodies, or None if there is none."""
        for place in self.counters:
            values = Counter(row[place] for row in map(_numbers, bodies) if len(row) > place)
            if value := next((value for value, count in values.items() if count > 1), None):
                return value
        return None

    def timeout_s(self, users: int) -> float:
        """Return the timeout of a response, which allows for a server that queues the requests of all users."""
        return LEAST_TIMEOUT_S + (users + OTHER_REQUESTS) * (self.task_s + JOB_QUEUE_S * self.of_a_job)


def counters_in(bodies: Sequence[bytes]) -> tuple[int, ...]:
    """Return which of the numbers in the bodies of consecutive responses grow by the same step each time."""
    rows = list(map(_numbers, bodies))
    if len(rows) < 3 or len({len(row) for row in rows}) > 1:
        return ()
    columns = enumerate(zip(*rows, strict=True))
    return tuple(
        place
        for place, column in columns
        if column[1] > column[0] and len({later - earlier for earlier, later in itertools.pairwise(column)}) == 1
    )


def _numbers(body: bytes) -> list[int]:
    return [int(digits) for digits in re.findall(rb"\d{1,18}", body[:_MOST_COUNTED_BYTES])]


Expectations = dict[Work, Expectation]  # by `Case.work`


async def try_task(task: str, python: Interpreter, folder: Path | None = None) -> Expectation:
    """Run a task in a separate process and return the expected response; raise BadInputError if the run fails."""
    try:
        run = await answer([python.path, *script("task_runs", task=task)], TRIAL_LIMIT_S, folder=folder)
    except TimeoutError:
        raise BadInputError(f"task {task!r} did not end within {TRIAL_LIMIT_S:.0f} s; use a shorter task") from None
    except HelperDiedError as error:
        raise BadInputError(f"task {task!r} can't be tried in a worker process: {error}") from None
    except HelperError as error:
        raise BadInputError(str(error)) from None
    return Expectation(run["answer"].encode(), run["wall_s"], run["cpu_s"])
