"""Plans of suites that are given as text, and the commands that start their servers."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from under_siege.measure import server_command
from under_siege.measure.plan import Plan, make_plan
from under_siege.measure.server_command import Start
from under_siege.suite.suite_file import read_suite

SERVERS = "".join(f'[servers.{name}]\ncommand = "serve {{port}} {name}"\n' for name in ("plain", "built", "broken"))


def plan_in(folder: Path, text: str) -> Plan:
    (folder / "s.toml").write_text(text)
    return make_plan(read_suite(folder / "s.toml"), {"python": [sys.executable]}, time_s=None, rounds=1)


@contextlib.contextmanager
def starting(plan: Plan, server: str) -> Iterator[Start]:
    """Yield the command that starts this server, with its environment and files, without starting the supervisor."""
    case = next(case for case in (*plan.cases, *plan.ceilings) if case.server == server)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(server_command, "current_supervisor", lambda: SimpleNamespace(removing=contextlib.nullcontext))
        with server_command.start_of(plan, case, 8123, {}) as found:
            yield found


def start_in(plan: Plan, server: str) -> Start:
    """Return the command that starts this server, with its environment."""
    with starting(plan, server) as found:
        return found
