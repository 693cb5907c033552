"""Recognise errors whose cause lies outside the code that raises them, and say what to do about them."""

import re
from collections.abc import Callable

from under_siege.host.log_text import HEAD, plain

_SERVICES = {
    "5432": "PostgreSQL",
    "6379": "Redis",
    "3306": "MySQL",
    "27017": "MongoDB",
    "5672": "RabbitMQ",
    "9092": "Kafka",
    "11211": "memcached",
}
_REFUSED = (  # how clients say that nothing listens at a host and a port
    r"(?<!Errno 101\] )(?<!Errno 110\] )(?<!Errno 113\] )Connect call failed \('(?P<host>[^']+)', (?P<port>\d+)",
    r"Error 111 connecting to (?P<host>[^\s:]+):(?P<port>\d+)",
    r'connection to server at "(?P<host>[^"]+)"[^,]*, port (?P<port>\d+) failed: Connection refused',
    r'connection to server on socket "(?P<host>[^"]+)/\.s\.PGSQL\.(?P<port>\d+)" failed: (?:No such|.*refused)',
    r"Can't connect to MySQL server on '(?P<host>[^':]+)(?::(?P<port>\d+))?'[^\n]{0,10}\b111\b",
    r"(?P<host>[\w.-]+):(?P<port>\d+): \[Errno 111\] Connection refused",
)


def _no_service(found: re.Match[str]) -> str:
    port = found["port"]
    if not port:  # some clients of MySQL do not say it
        return (
            f"nothing listens at {found['host']} at the port where the application expects MySQL, so start it first, "
            "or change the application's settings"
        )
    name = _SERVICES.get(port, "")
    service = f", where {name} usually does," if name else ""
    return f"nothing listens at {found['host']}:{port}{service} so start it first, or change the application's settings"


Cause = tuple[str, Callable[[re.Match[str]], str]]  # a pattern, and what explains it
_EXCEPTIONS: tuple[Cause, ...] = (
    (
        r"asyncio\.run\(\) cannot be called from a running event loop|This event loop is already running",
        lambda _: "this server imports the application while its event loop runs, so the import can't run one",
    ),
    (
        r"RuntimeError: no running event loop",
        lambda _: "the import needs a running event loop, and this server imports the application before its loop runs",
    ),
    *((pattern, _no_service) for pattern in _REFUSED),
)
_MESSAGES: tuple[Cause, ...] = (
    (
        r"WORKER TIMEOUT",
        lambda _: (
            "gunicorn killed a worker that took longer than its --timeout (WORKER TIMEOUT): raise --timeout, or use "
            "gthread or asynchronous workers"
        ),
    ),
    (
        r"Maximum request limit of \d+ exceeded",
        lambda _: "it ended after its --limit-max-requests: in production, a supervisor has to start it again",
    ),
)
_CHAIN = re.compile(r"direct cause of the following exception|During handling of the above exception")


def _last_errors(output: str) -> str:
    """Return the last traceback, with those of the exceptions that led to it; without any, the whole output."""
    _, *tracebacks = output.split(HEAD)
    last = tracebacks[-1:]
    for earlier in tracebacks[-2::-1]:
        if not _CHAIN.search(earlier):
            break
        last.insert(0, earlier)
    return HEAD.join(last) if tracebacks else output


def known_cause(output: str) -> str:
    """Return the cause of the last error in a program's output if it is known, or an empty string.

    Messages of a server count wherever they are. A refused connection counts only if it led to the last exception,
    because an application may go on without the other program.
    """
    output = plain(output)
    last = _last_errors(output)
    searched = [*((pattern, explain, output) for pattern, explain in _MESSAGES)]
    searched += [(pattern, explain, last) for pattern, explain in _EXCEPTIONS]
    found = [(match, explain) for pattern, explain, text in searched for match in re.finditer(pattern, text)]
    if not found:
        return ""
    match, explain = max(found, key=lambda pair: pair[0].start() - len(pair[0].string))  # the nearest to the end
    return explain(match)
