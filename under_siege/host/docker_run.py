"""Run a server whose command is `docker run` or `podman run`: its processes belong to a container, not to the command.

The command only talks to a daemon, or leaves the container behind if it is killed. So the container is found, measured
and stopped by its id, which the runtime writes to a file.
"""

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import BadInputError
from under_siege.host.commands import CommandError, output_of
from under_siege.host.limits import CPU, MEMORY, Group, Limits, own_controllers
from under_siege.host.process_tree import read_proc
from under_siege.host.supervisor_client import current_supervisor
from under_siege.record.record import CaseFailedError

RUNTIMES = ("docker", "podman")
ID_FILE = "cidfile"
STOP_S = 5  # how long a container may take to stop, before the runtime kills it
LIMIT_S = 30.0  # timeout of the runtime's commands
_COMPOSERS = ("docker-compose", "podman-compose")
# Other commands that start containers, or stop those that they have not started.
_OTHERS = ("attach", "compose", "create", "exec", "kube", "play", "pod", "restart", "service", "stack", "start")
_SHELLS = ("ash", "bash", "dash", "fish", "ksh", "sh", "su", "zsh")
# Options without a value, of the runtime and of its command `run`; all others have one.
_SWITCHES = {
    *("D", "debug", "help", "noout", "r", "remote", "syslog", "tls", "tlsverify", "trace", "transient-store"),
    *("v", "version"),
}
_RUN_SWITCHES = {
    *("P", "d", "detach", "disable-content-trust", "env-host", "help", "http-proxy", "i", "init", "interactive"),
    *("no-healthcheck", "no-hostname", "no-hosts", "oom-kill-disable", "passwd", "privileged", "publish-all", "q"),
    *("quiet", "read-only", "read-only-tmpfs", "replace", "rm", "rmi", "sig-proxy", "t", "tls-verify", "tty"),
    *("unsetenv-all", "use-api-socket"),
}
_ON, _OFF = "true", ("0", "f", "F", "false", "FALSE", "False")


@dataclass(frozen=True, slots=True)
class RunCommand:
    """A command that runs a container, such as `sudo docker --context far run --rm -p 127.0.0.1:8000:8000 shop`."""

    words: tuple[str, ...]
    client: tuple[str, ...]  # the runtime with its options, such as `sudo docker --context far`
    runtime: str  # its name, such as `docker`
    first_option: int  # index of the word after `run`
    id_file: str  # the file that the command names for the id of the container, or an empty string


def container_command(words: Sequence[str]) -> RunCommand | None:
    """Return the command that runs a container, or None if the words are another command.

    Raises:
        BadInputError: the command starts a container that the bench could not find, measure or stop.
    """
    for index, word in enumerate(words):
        name = Path(word).name
        if name == "ssh":  # what follows runs on another machine
            return None
        if name in _COMPOSERS:
            raise _refused(name)
        if name in RUNTIMES:
            _, place = _options(words, index + 1, _SWITCHES)
            after = place + 1 if words[place : place + 1] == ["container"] else place
            verb = next(iter(words[after:]), "")
            if verb in _OTHERS:
                raise _refused(shlex.join([name, *words[place : after + (2 if verb == "compose" else 1)]]))
            if verb == "run":
                return _checked(words, words[:place], name, after + 1)
        if name in _SHELLS and any(_hides_a_container(script) for script in words[index + 1 :]):
            why = "the bench can't find a container that a shell starts"
            raise BadInputError(f"{name}: {why}; expected docker run as the command itself, without {name}")
    return None


def _refused(what: str) -> BadInputError:
    how = "expected docker run; for other containers, start them yourself, and set url instead of command"
    return BadInputError(f"{what}: the bench can't find the containers that it starts; {how}")


def _hides_a_container(script: str) -> bool:
    with contextlib.suppress(ValueError):  # its quotes are not closed
        try:
            return container_command(shlex.split(script)) is not None
        except BadInputError:
            return True
    return False


def _checked(words: Sequence[str], client: Sequence[str], runtime: str, first_option: int) -> RunCommand:
    options, _ = _options(words, first_option, _RUN_SWITCHES)
    if any(name in ("d", "detach") and value not in _OFF for name, value in options):
        raise BadInputError(f"{runtime} run -d ends before its server does; remove -d or --detach")
    files = [value for name, value in options if name == ID_FILE]
    if not all(files):
        raise BadInputError(f"{runtime} run --{ID_FILE}: expected the name of a file; add it, or remove the option")
    return RunCommand(tuple(words), tuple(client), runtime, first_option, files[-1] if files else "")


def _options(words: Sequence[str], place: int, switches: Collection[str]) -> tuple[list[tuple[str, str]], int]:
    """Return the options that begin at this index, without dashes, and the index of the first word after them."""
    found: list[tuple[str, str]] = []
    while place < len(words) and words[place].startswith("-") and words[place] != "-":
        word, place = words[place], place + 1
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        else:
            letters = word[1:]
            while len(letters) > 1 and letters[0] in switches and letters[1] != "=":  # such as -it
                found.append((letters[0], _ON))
                letters = letters[1:]
            name = letters[0]
            equals = letters[1:]
            value = letters[1:].removeprefix("=")
        if not equals and name in switches:
            value = _ON
        elif not equals:
            value, place = next(iter(words[place:]), ""), place + 1
        found.append((name, value))
    return found, min(place, len(words))


class Container:
    """The container that a command starts.

    Args:
        own_folder: directory for the file with the id, unless the command names a file.
        environment, folder: those of the command; the other commands of the runtime must reach the same daemon.
    """

    def __init__(
        self, words: Sequence[str], own_folder: Path, environment: Mapping[str, str], folder: Path | None
    ) -> None:
        command = container_command(words)
        assert command is not None
        self._client, self._runtime = command.client, command.runtime
        self._environment, self._folder = environment, folder or Path.cwd()
        name, place = command.id_file, command.first_option
        self._file = self._folder / name if name else own_folder / "container-id"
        self.words = [*words] if name else [*words[:place], f"--{ID_FILE}", str(self._file), *words[place:]]
        if self._file.exists():  # it names a container that this run must not remove
            why = f"--{ID_FILE} {self._file} exists already, perhaps for another container"
            raise CaseFailedError("id_file_exists", f"{why}; remove the file, or the option")

    async def _run(self, *arguments: str) -> str:
        """Return the output of a command of the runtime; raise CaseFailedError if it fails."""
        command, folder, environment = [*self._client, *arguments], self._folder, self._environment
        try:
            return await asyncio.to_thread(output_of, command, LIMIT_S, folder=folder, environment=environment)
        except CommandError as error:
            why = f"{self._runtime} {arguments[0]} failed: {error}"
            remedy = "install it, start its daemon, or let this user access it"
            raise CaseFailedError("no_runtime", f"{why}; {remedy}") from None

    @property
    def _id(self) -> str:
        with contextlib.suppress(OSError):
            return self._file.read_text().strip()
        return ""

    async def pid(self) -> int | None:
        """Return the id of the container's first process, or None if it runs elsewhere, or is not visible here.

        The daemon may count process ids in another way: on another machine, in a virtual machine such as that of Docker
        Desktop, or outside of the container in which the bench runs. The number then belongs to an unrelated process.
        """
        container = self._id
        found = await self._run("inspect", "--format", "{{.State.Pid}}", container)
        is_here = found.isdecimal() and container and container.encode() in read_proc(f"{found}/cgroup")
        return int(found) if is_here else None

    @contextlib.asynccontextmanager
    async def removed(self) -> AsyncIterator[None]:
        """Check that the runtime can be used; at the end, remove the container, even if the bench is killed."""
        await self._run("version")
        # In the folder of the command, because options such as --tlscacert may name files there.
        script = 'cd "$0"; file=$1; shift; id=$(cat "$file") && { "$@" rm -f "$id"; rm -f "$file"; }'
        remove = ["sh", "-c", script, str(self._folder), str(self._file), *self._client]
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


@contextlib.asynccontextmanager
async def contained(
    words: Sequence[str], own_folder: Path, environment: Mapping[str, str], folder: Path | None
) -> AsyncIterator[tuple[list[str], Container | None]]:
    """Yield the command and its container, if it starts one; remove the container at the end."""
    try:
        is_container = container_command(words) is not None
    except BadInputError as error:  # its program is a value of an axis; otherwise, the suite was rejected
        raise CaseFailedError("unsuitable_container", str(error)) from None
    if not is_container:
        yield list(words), None
        return
    container = Container(words, own_folder, environment, folder)
    async with container.removed():
        yield container.words, container


def group_of(pid: int) -> Group | None:
    """Return the cgroup of a container with its limits, or None if it can't be read."""
    with contextlib.suppress(OSError):
        controllers = own_controllers(Path(f"/proc/{pid}/cgroup"))
        cpus = controllers[CPU].cpus() if CPU in controllers else None
        memory_bytes = controllers[MEMORY].memory_bytes() if MEMORY in controllers else None
        limits = Limits(cpus, memory_bytes)
        return Group(controllers, limits) if limits != Limits() else None
    return None
