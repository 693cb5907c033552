"""Check, before anything starts, that cgroups with the limits of a run can be created, and prepare this machine for it.

In version 2, a cgroup that has processes can't pass on controllers to new groups (cgroups(7), "no internal processes").
In a container, and in a scope of systemd, the bench's own group has processes: at least the bench. They are therefore
moved to a child group until the run is over.
"""

import contextlib
import errno
import os
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Collection, Iterator, Sequence

from common.errors import BadInputError
from under_siege.host.limits import CPU, MEMORY, Controller, Limits, MissingControllerError, created, own_controllers
from under_siege.host.process_tree import descendants
from under_siege.host.supervisor_client import current_supervisor
from under_siege.host.user_scope import RestartError, can_restart
from under_siege.paths import own_command

_OPTIONS = {CPU: "--cpus", MEMORY: "--memory"}
_MOST_MOVES = 10  # how often to look for processes that have been started meanwhile
# Arguments: the group, the child group, and the controllers to withdraw. While another bench has servers in the group,
# everything stays as it is.
_MOVE_BACK = """
for other in "$0"/under-siege-*/cgroup.procs; do
    [ "$other" = "$1/cgroup.procs" ] || ! grep -q . "$other" || exit 0
done
printf %s "$2" >"$0/cgroup.subtree_control"
for pid in $(cat "$1/cgroup.procs"); do echo "$pid" >"$0/cgroup.procs"; done
rmdir "$1"
"""


@contextlib.contextmanager
def limits_allowed(wanted: Collection[Limits]) -> Iterator[None]:
    """Try a group with limits of these kinds, so that others can be created while the context is active.

    Raises:
        RestartError: the bench must start again in a scope of the user's systemd.
        BadInputError: no group can be created; the message ends with the command that works on this machine.
    """
    cpus = max((limits.cpus for limits in wanted if limits.cpus is not None), default=None)
    trial = Limits(cpus, max((limits.memory_bytes for limits in wanted if limits.memory_bytes), default=None))
    if trial == Limits():
        yield
        return
    with contextlib.ExitStack() as stack:
        own = next((group for name, group in own_controllers().items() if name in trial.needed and group.is_v2), None)
        has_moved = own is not None and _is_alone(own) and _entered(stack, own, trial.needed)
        if own is not None and not has_moved and os.geteuid() != 0 and can_restart():
            raise RestartError
        problem = _problem(trial)
        if problem and own is not None and not has_moved and own.folder == own.top and _is_of_container(own):
            problem = _problem(trial) if _entered(stack, own, trial.needed) else problem
        if problem:
            raise BadInputError(_refusal(problem, trial, own))
        yield


def _problem(trial: Limits) -> OSError | None:
    """Create a group for a trial, and return the error, if there is one."""
    try:
        with created(trial):
            pass
    except OSError as error:
        return error
    return None


def _is_of_container(group: Controller) -> bool:
    """Return whether the root that the bench sees is the group of a container, not the root of all groups."""
    return Controller(group.top, group.top, is_v2=True).type != ""


def _is_alone(group: Controller) -> bool:
    """Return whether a group contains only the bench and its descendants, as in a scope or a service."""
    with contextlib.suppress(OSError):
        inside = set(map(int, (group.folder / "cgroup.procs").read_text().split()))
        return os.getpid() in inside and inside <= {os.getpid(), *descendants(os.getpid())}
    return False


def _entered(stack: contextlib.ExitStack, group: Controller, needed: Sequence[str]) -> bool:
    """Move all processes of a group to a child group until the stack is closed; return whether this is possible."""
    try:
        stack.enter_context(moved_out(group, needed))
    except OSError:
        return False
    return True


@contextlib.contextmanager
def moved_out(group: Controller, needed: Sequence[str]) -> Iterator[None]:
    """Move all processes of a group to a child group while the context is active, or until the bench is killed.

    Raises:
        OSError: a process can't be moved; all of them are in the group again.
    """
    child = group.folder / f"under-siege-bench-{uuid.uuid4().hex[:12]}"
    child.mkdir()
    withdrawn = " ".join(f"-{each}" for each in needed)
    move_back = ["sh", "-c", _MOVE_BACK, str(group.folder), str(child), withdrawn]
    with current_supervisor().running_at_the_end(move_back, os.environ):
        try:
            for _ in range(_MOST_MOVES):
                pids = [pid for pid in (group.folder / "cgroup.procs").read_text().split() if pid != "0"]
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        (child / "cgroup.procs").write_text(pid)
                if not pids:
                    break
            yield
        finally:
            subprocess.run(move_back, check=False, capture_output=True)


def _refusal(problem: OSError, trial: Limits, own: Controller | None) -> str:
    """Return why no group can be created, and the command that works on this machine."""
    why = f"--cpus and --memory need a cgroup, but none can be created ({problem.strerror})"
    is_in_container = problem.errno == errno.EROFS or (own is not None and _is_of_container(own))
    if not is_in_container and isinstance(problem, MissingControllerError):
        option = _OPTIONS[problem.controller]
        return f"{option} needs the cgroup controller {problem.controller}, which this system lacks; {_without(option)}"
    if not is_in_container and os.geteuid() != 0:
        command = shlex.join(own_command())
        return f"{why}; run: {f'sudo {command}' if shutil.which('sudo') else f'su -c {shlex.quote(command)}'}"
    limits = [] if trial.cpus is None else [f"--cpus {trial.cpus:g}"]
    limits += [] if trial.memory_bytes is None else [f"--memory {trial.memory_bytes}"]
    return f"{why}; start the container with docker run {' '.join(limits)} and, in it, {_without(*_OPTIONS.values())}"


def _without(*options: str) -> str:
    """Return how to run the same command without these options."""
    words, kept = own_command(), list[str]()
    for index, word in enumerate(words):
        is_value = index > 0 and words[index - 1] in options
        if not is_value and word.partition("=")[0] not in options:
            kept.append(word)
    in_suite = "" if len(kept) < len(words) else "remove them from [limits] in the suite, and "
    return f"{in_suite}run: {shlex.join(kept)}"
