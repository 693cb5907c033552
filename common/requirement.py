"""What a server needs to run, as its line `REQUIRES = "python>=3.14"` says."""

import platform
import re
import sys


def unmet(requires: str, version: tuple[int, ...] = sys.version_info[:2]) -> str:
    """`needs Python 3.14 or later, and this is 3.11.7`; empty where nothing is lacking.

    Raises:
        ValueError: the line is no such requirement.
    """
    if not requires:
        return ""
    wanted = re.fullmatch(r"python\s*>=\s*(\d+)\.(\d+)", requires)
    if wanted is None:
        raise ValueError(f"REQUIRES = {requires!r}: expected something like 'python>=3.14'")
    if version >= (int(wanted[1]), int(wanted[2])):
        return ""
    this = platform.python_version() if version == sys.version_info[:2] else ".".join(map(str, version))
    return f"needs Python {wanted[1]}.{wanted[2]} or later, and this is {this}"
