"""Run a server whose command is `docker run` or `podman run`: its processes belong to a container, not to the command.

The command only talks to a daemon, or leaves the container behind if it is killed. So the container is found, measured
and stopped by its id, which the runtime writes to a file.
"""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import psutil

from under_siege.host.limits import CPU, MEMORY, Group, Limits, own_controllers
from under_siege.host.supervisor_client import current_supervisor
from under_siege.record.record import CaseFailedError
from under_siege.secrets import masked

RUNTIMES = ("docker", "podman")
ID_FILE = "--cidfile"
STOP_S = 5  # how long a container may take to stop, before the runtime kills it
LIMIT_S = 30.0  # timeout of the runtime's commands
_DETACHED = ("-d", "--detach", "-dit", "-itd", "-d=true", "--detach=true")


def runtime_of(words: Sequence[str]) -> str:
    """Return the program that runs a container, such as `docker`, or an empty string for any other command."""
    programs = [word for word in words[: words.index("run")] if Path(word).name in RUNTIMES] if "run" in words else []
    return programs[-1] if programs else ""


class Container:
    """The container that a command starts.

    Args:
        own_folder: directory for the file with the id, unless the command names a file.
        environment, folder: those of the command; the other commands of the runtime must reach the same daemon.
    """

    def __init__(
        self, words: Sequence[str], own_folder: Path, environment: Mapping[str, str], folder: Path | None
    ) -> None:
        self._runtime, self._environment, self._folder = runtime_of(words), environment, folder or Path.cwd()
        place = words.index("run", words.index(self._runtime)) + 1
        given = next((index for index, word in enumerate(words) if word.startswith(ID_FILE)), None)
        name = "" if given is None else words[given].partition("=")[2] or words[given + 1]
        self._file = self._folder / name if name else own_folder / "container-id"
        self.words = list(words) if name else [*words[:place], ID_FILE, str(self._file), *words[place:]]
        self._before = [*words[: words.index(self._runtime)], self._runtime]  # such as `sudo docker`
        if detached := next((word for word in words[place:] if word in _DETACHED), ""):
            why = f"{Path(self._runtime).name} run {detached} ends before its server does; remove {detached}"
            raise CaseFailedError("detached", why)
        if self._file.exists():  # it names a container that this run must not remove
            why = (
                f"{ID_FILE} {self._file} exists already, perhaps for another container; remove the file, or the option"
            )
            raise CaseFailedError("id_file_exists", why)

    async def _run(self, *arguments: str) -> str:
        """Return the output of a command of the runtime; raise CaseFailedError with its first line of errors."""
        command, name = [*self._before, *arguments], Path(self._runtime).name
        try:
            ran = await asyncio.to_thread(
                subprocess.run,
                command,
                env=self._environment,
                cwd=self._folder,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except OSError as error:
            why = f"{name} can't be started: {error.strerror}; install it, or use a command without a container"
            raise CaseFailedError("no_runtime", why) from None
        except subprocess.TimeoutExpired:
            raise CaseFailedError("no_runtime", f"{name} {arguments[0]} did not end within {LIMIT_S:.0f} s") from None
        if ran.returncode:
            said = masked(next(iter(ran.stderr.splitlines()), f"exit code {ran.returncode}"))[:300]
            remedy = "start its daemon, or let this user access it"
            raise CaseFailedError("no_runtime", f"{name} {arguments[0]} failed: {said}; {remedy}")
        return ran.stdout.strip()

    @property
    def _id(self) -> str:
        with contextlib.suppress(OSError):
            return self._file.read_text().strip()
        return ""

    async def pid(self) -> int | None:
        """Return the id of the container's first process on this machine, or None if it runs on another one."""
        found = await self._run("inspect", "--format", "{{.State.Pid}}", self._id)
        return int(found) if found.isdecimal() and psutil.pid_exists(int(found)) else None

    @contextlib.asynccontextmanager
    async def removed(self) -> AsyncIterator[None]:
        """Check that the runtime can be used; at the end, remove the container, even if the bench is killed."""
        await self._run("version")
        script = 'id=$(cat "$0") && { "$@" rm -f "$id"; rm -f "$0"; }'
        remove = ["sh", "-c", script, str(self._file), *self._before]
        with current_supervisor().running_at_the_end(remove, self._environment):
            try:
                yield
            finally:
                await self.stop()

    async def stop(self) -> None:
        """Stop and remove the container, if it was started."""
        if container := self._id:
            for arguments in (("stop", "--time", str(STOP_S)), ("rm", "-f")):
                with contextlib.suppress(CaseFailedError):  # with --rm, it is gone once it has stopped
                    await self._run(*arguments, container)
            self._file.unlink(missing_ok=True)


def group_of(pid: int) -> Group | None:
    """Return the cgroup of a container with its limits, or None if it can't be read."""
    with contextlib.suppress(OSError):
        controllers = own_controllers(Path(f"/proc/{pid}/cgroup"))
        cpus = controllers[CPU].cpus() if CPU in controllers else None
        memory_bytes = controllers[MEMORY].memory_bytes() if MEMORY in controllers else None
        limits = Limits(cpus, memory_bytes)
        return Group(controllers, limits) if limits != Limits() else None
    return None
