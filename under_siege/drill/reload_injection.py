"""Reload a server under load, and find out when processes that started after that answer requests."""

import asyncio
import contextlib
import re
import signal
from urllib.parse import urlsplit

import psutil

from under_siege.drill.injection import NEVER, NEVER_S, NO_RELOAD, was_sent
from under_siege.drill.loaded_server import LOOK_S, FaultContext
from under_siege.host.commands import CommandError, run_command
from under_siege.host.ports import holders
from under_siege.host.process_tree import catches
from under_siege.load.background import in_background
from under_siege.load.http_client import raw_request
from under_siege.load.request import filled_all
from under_siege.record.record import CaseFailedError

RELOAD_LIMIT_S = 60.0  # timeout until all old workers have ended; granian waits 3.5 s for each
ASKED_PER_WORKER = 4  # maximum number of requests per listening process that ask, before the fault, which ones answer
ASK_S = 0.05  # pause between two requests that ask which process answers; each may block a worker for ACCEPT_LOOK_S
ACCEPT_LOOK_S = 0.01


async def reload(context: FaultContext) -> None:
    """Reload the server with its command or SIGHUP, and wait until its old workers have ended and it has recovered."""
    server, incident = context.server, context.incident
    command = filled_all(server.start.reload if server.start else (), {"pid": server.pid})
    if not command and not (server.pid and catches(server.pid, signal.SIGHUP)):
        incident.without = NO_RELOAD
        return
    async with context.under_load(), context.watching_memory():
        workers = await _workers(context)
        old = {*context.main_process(), *context.child_processes()}
        if command:
            context.mark_fault()
            await _run(command, context)
        elif not was_sent(context, lambda: context.signal(signal.SIGHUP)):
            return
        await _until_replaced(context, old, workers)
        if not await context.recovers_within(context.now_s() - (incident.fault_at_s or 0.0) + NEVER_S):
            incident.left_whole = False


async def _workers(context: FaultContext) -> set[psutil.Process]:
    """Return the child processes that answer requests; some that only inherited the listening socket don't."""
    found, listening = set[psutil.Process](), {*context.server.listeners()} - {context.server.pid}
    for _ in range(ASKED_PER_WORKER * len(listening)):
        found |= await _who_answers(context)
        if listening.issubset(process.pid for process in found):
            break
    return found - {*context.main_process()}


async def _run(command: list[str], context: FaultContext) -> None:
    start = context.server.start
    assert start is not None
    try:
        await run_command(command, start.folder, start.environment)
    except CommandError as error:
        raise CaseFailedError("no_fault", f"the reload command failed: {' '.join(command)!r}: {error}") from None
    except OSError as error:
        why = f"the reload command can't be started: {command[0]!r}: {error.strerror}"
        raise CaseFailedError("no_fault", why) from None


async def _until_replaced(context: FaultContext, old: set[psutil.Process], workers: set[psutil.Process]) -> None:
    """Wait until a new process answers and the old workers have ended; note when, unless it can't be known.

    If only old processes accept connections, a new process may still answer, as behind a proxy. This can't be known.
    """
    seen, fault_at_s = context.incident.seen, context.incident.fault_at_s or 0.0
    are_there_new = False
    async with in_background(_note_new(context, old)):
        while context.now_s() < fault_at_s + RELOAD_LIMIT_S and context.server.alive():
            if "old_s" not in seen and workers and not any(map(_is_running, workers)):
                seen["old_s"] = context.now_s() - fault_at_s
            are_there_new = are_there_new or not old.issuperset(context.child_processes())
            if "new_s" in seen and ("old_s" in seen or not workers):
                return
            await asyncio.sleep(LOOK_S)
    if not are_there_new:
        seen.setdefault("new_s", NEVER)
    if workers:
        seen.setdefault("old_s", NEVER)


async def _note_new(context: FaultContext, old: set[psutil.Process]) -> None:
    """Send requests until a new process answers one, and note when it does."""
    processes = set[psutil.Process]()
    while not processes or processes & old:
        await asyncio.sleep(ASK_S)
        processes = await _who_answers(context)
    context.incident.seen["new_s"] = context.now_s() - (context.incident.fault_at_s or 0.0)


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


async def _who_answers(context: FaultContext) -> set[psutil.Process]:
    """Send a request once a process has accepted its connection; return the processes that hold this connection.

    Return nothing if there is no response with the expected status, or the processes are unknown.
    """
    url, request, status = context.users.next_request()
    parts, server = urlsplit(url), context.server
    assert server.pid is not None
    with contextlib.suppress(OSError, EOFError, psutil.Error):
        async with asyncio.timeout(context.users.timeout_s):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            with contextlib.closing(writer):
                ports = server.pid, parts.port or 80, writer.get_extra_info("sockname")[1]
                while not (pids := await asyncio.to_thread(holders, *ports)):
                    if reader.at_eof():
                        return set()
                    await asyncio.sleep(ACCEPT_LOOK_S)
                processes = set(map(psutil.Process, pids))
                writer.write(raw_request(url, request))
                line = await reader.readline()
                if re.match(rb"HTTP/1\.[01] %d\b" % status, line):
                    return processes
    return set()
