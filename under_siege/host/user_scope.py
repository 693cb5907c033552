"""Start the bench again in a scope of the user's systemd, in which a user without root may create cgroups."""

import os
from pathlib import Path
from typing import NoReturn

from under_siege.paths import IS_PROGRAM, own_command

SCOPE = ("systemd-run", "--user", "--scope", "--quiet", "-p", "Delegate=yes")
PROBE_LIMIT_S = 10.0  # timeout for an empty scope
_RESTARTED = "UNDER_SIEGE_RESTARTED"
IS_RESTARTED = os.environ.pop(_RESTARTED, "") != ""


class RestartError(Exception):
    """Raised, before anything has started, to start the bench again in a scope."""


def can_restart() -> bool:
    """Return whether the user's systemd can start the bench in a scope, in which it does not run yet."""
    if IS_RESTARTED or not IS_PROGRAM:
        return False
    from under_siege.host.commands import CommandError, output_of  # loads asyncio, which --help does not need

    try:
        output_of([*SCOPE, "true"], PROBE_LIMIT_S, environment=_environment())
    except CommandError:
        return False
    return True


def restart() -> NoReturn:
    """Replace this process by a new bench in a scope; its process id, terminal and directory stay the same."""
    os.execvpe(SCOPE[0], [*SCOPE, *own_command()], {**_environment(), _RESTARTED: "1"})  # noqa: S606 (no shell)


def _environment() -> dict[str, str]:
    """Return this process's environment, with the directory of the user's systemd, which `su` leaves out."""
    usual = Path(f"/run/user/{os.getuid()}")
    return {**({"XDG_RUNTIME_DIR": str(usual)} if usual.is_dir() else {}), **os.environ}
