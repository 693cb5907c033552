"""A stand-in for docker: a client, and a daemon that starts servers in cgroups and publishes their ports by a proxy.

usage: fake_docker.py daemon SOCKET
       fake_docker.py [--config FOLDER] run [--cidfile FILE] [--cpus N] -p HOST:PORT:PORT IMAGE WORDS...
       fake_docker.py [--config FOLDER] version | inspect --format FORMAT ID | stop --time S ID | rm -f ID

The client finds the daemon at FAKE_DOCKER, or in the file `daemon` in FOLDER. With FAKE_DOCKER_PID, `inspect` reports
this process id, as a daemon on another machine might.
"""

import contextlib
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

CONTAINERS: dict[str, subprocess.Popen[bytes]] = {}
CLOSED: dict[str, Any] = {}
REMOVED = set[str]()
LOCK = threading.Lock()
DAEMON = os.environ.get("FAKE_DOCKER", "")


def proxy(port: int, target: int) -> socketserver.ThreadingTCPServer:
    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", target)) as behind:
                back = threading.Thread(target=copy, args=(behind, self.request), daemon=True)
                back.start()
                copy(self.request, behind)
                back.join()

    socketserver.ThreadingTCPServer.allow_reuse_address = True
    server = socketserver.ThreadingTCPServer(("127.0.0.1", port), Relay)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def start(name: str, words: list[str]) -> None:
    cpus = words[words.index("--cpus") + 1] if "--cpus" in words else ""
    published = words[words.index("-p") + 1]
    _, port, inside = published.split(":")
    command = words[words.index("-p") + 3 :]
    group = create_group(name, cpus)
    if group:
        command = ["sh", "-c", 'echo $$ >"$0/cgroup.procs"; exec "$@"', str(group), *command]
    CONTAINERS[name] = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    CLOSED[name] = [proxy(int(port), int(inside)), group]


def create_group(name: str, cpus: str) -> Path | None:
    """Create a cgroup that is named after the container, as docker does; return None if that is not allowed."""
    from under_siege.host.limits import own_controllers

    with contextlib.suppress(KeyError, OSError):
        own = own_controllers()["cpu"]
        group = own.folder / f"docker-{name}.scope"
        group.mkdir()
        if cpus:
            quota_us = round(float(cpus) * 100_000)
            file, text = ("cpu.max", f"{quota_us} 100000") if own.is_v2 else ("cpu.cfs_quota_us", str(quota_us))
            (group / file).write_text(text)
        return group
    return None


def remove(name: str) -> None:
    process = CONTAINERS.pop(name)
    process.kill()
    process.wait()
    relay, group = CLOSED.pop(name)
    relay.shutdown()
    relay.server_close()
    while group and group.exists():  # it is busy until the kernel has removed the process
        with contextlib.suppress(OSError):
            group.rmdir()
        time.sleep(0.01)


def carry_out(order: list[str]) -> str:
    action, *words = order
    if action == "run":
        with LOCK:
            if words[0] not in REMOVED:
                start(words[0], words[1:])
    if action == "inspect":
        return str(CONTAINERS[words[-1]].pid)
    if action == "wait":
        return str(CONTAINERS[words[-1]].wait())
    if action == "stop":
        CONTAINERS[words[-1]].terminate()
        CONTAINERS[words[-1]].wait(5)
    if action == "rm":
        with LOCK:
            REMOVED.add(words[-1])
            if words[-1] in CONTAINERS:
                remove(words[-1])
    return ""


def daemon(path: str) -> None:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            try:
                answer = carry_out(json.loads(self.rfile.readline()))
            except KeyError:
                answer = "error"
            with contextlib.suppress(OSError):
                self.wfile.write(f"{answer}\n".encode())

    server = socketserver.ThreadingUnixStreamServer(path, Handler)
    server.daemon_threads = True
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()
    for name in list(CONTAINERS):
        remove(name)


def ask(*order: str) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(DAEMON)
        except OSError:
            print(
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
                "See 'docker run --help'.",
                sep="\n",
                file=sys.stderr,
            )
            sys.exit(125)
        connection.sendall(f"{json.dumps(order)}\n".encode())
        answer = connection.makefile().readline().strip()
    if answer == "error":
        sys.exit(1)
    return answer


def main(action: str, *words: str) -> None:
    global DAEMON
    if action == "--config":
        folder, action, *words = words
        with contextlib.suppress(OSError):
            DAEMON = Path(folder, "daemon").read_text()
    if action == "daemon":
        daemon(words[0])
    elif action == "run":
        name = uuid.uuid4().hex
        ask("version")
        id_file = Path(words[words.index("--cidfile") + 1])
        if id_file.exists():
            sys.exit(
                f"docker: container ID file found, make sure the other container isn't running or delete {id_file}"
            )
        id_file.write_text(name)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(ask("stop", name) or 143))
        ask("run", name, *words)
        sys.exit(int(ask("wait", name) or 0))
    elif action == "inspect" and "FAKE_DOCKER_PID" in os.environ:
        print(os.environ["FAKE_DOCKER_PID"])
    else:
        print(ask(action, *words))


if __name__ == "__main__":
    main(*sys.argv[1:])
