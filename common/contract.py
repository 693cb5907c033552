"""What a server needs to run, as its line `REQUIRES = "python>=3.14"` says."""

import platform
import re
import sys

from common.errors import BadInputError


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
