"""What servers and the bench have to agree on: ports, workers, the queues, and what `REQUIRES` means."""

import platform
import re
import sys

from common.errors import BadInputError

FIRST_PORT = 8000
MOST_WORKERS = 1000
LONGEST_QUEUE = 1_000_000  # as good as no limit
BACKLOG = 2048  # gunicorn's own default; with less, a burst of clients waits for SYN retransmissions, or is reset


def default_port(stem: str) -> int:
    """8000 for `1_…`, 8001 for `2_…`, and so on; 8000 where there is no number."""
    number = re.match(r"\d+", stem)
    return FIRST_PORT + int(number[0]) - 1 if number else FIRST_PORT


def unmet(requires: str, version: tuple[int, ...] = sys.version_info[:2]) -> str:
    """`needs Python 3.14 or later, and this is 3.11.7`; empty where nothing is lacking.

    Raises:
        BadInputError: the line is no such requirement.
    """
    if not requires:
        return ""
    wanted = re.fullmatch(r"python\s*>=\s*(\d+)\.(\d+)", requires)
    if wanted is None:
        raise BadInputError(f"REQUIRES = {requires!r}: expected something like 'python>=3.14'")
    if version >= (int(wanted[1]), int(wanted[2])):
        return ""
    this = platform.python_version() if version == sys.version_info[:2] else ".".join(map(str, version))
    return f"needs Python {wanted[1]}.{wanted[2]} or later, and this is {this}"
