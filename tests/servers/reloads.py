"""Replace the only worker process at SIGHUP: `python reloads.py PORT [--lose N] [--away S] [--hold MB]`.

--lose N   the new worker closes the connections of the first N requests of the load without a response
--away S   nothing listens for S seconds before the new worker starts
--hold MB  the new worker fills this memory while the old one still works

Otherwise, a reload loses nothing: both workers share a socket, and the old one ends between two requests.
"""

import argparse
import itertools
import os
import signal
import socket
import time

parser = argparse.ArgumentParser()
parser.add_argument("port", type=int)
parser.add_argument("--lose", type=int, default=0)
parser.add_argument("--away", type=float, default=0.0)
parser.add_argument("--hold", type=int, default=0)
options = parser.parse_args()


def listening() -> socket.socket:
    sock = socket.create_server(("127.0.0.1", options.port), backlog=128)
    sock.settimeout(0.05)
    return sock


def serve(sock: socket.socket, lose: int) -> None:
    """Answer one request at a time until SIGTERM."""
    ended = []
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    while not ended:
        try:
            connection, _ = sock.accept()
        except TimeoutError:
            continue
        with connection, connection.makefile("rb") as stream:
            head = b"".join(itertools.takewhile(lambda line: line not in (b"", b"\r\n"), stream))
            is_ping, is_of_the_load = head.startswith(b"GET /ping "), b"aiohttp" in head
            if lose and is_of_the_load and not is_ping:
                lose -= 1
                continue
            time.sleep(0 if is_ping else 0.002)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\npong")


def started(sock: socket.socket, lose: int = 0, hold: int = 0) -> int:
    """Start a worker, and return its process id once it serves."""
    ready, says_ready = os.pipe()
    if not (pid := os.fork()):
        held = b"x" * (hold * 1_000_000)
        os.write(says_ready, b".")
        serve(sock, lose)
        os._exit(len(held) < 0)
    os.read(ready, 1)
    os.close(ready)
    os.close(says_ready)
    return pid


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)


def reload() -> None:
    global sock, worker
    if options.away:
        sock.close()
        stop(worker)
        time.sleep(options.away)
        sock = listening()
        worker = started(sock)
    else:
        old, worker = worker, started(sock, options.lose, options.hold)
        stop(old)


sock = listening()
worker = started(sock)
got: list[int] = []
for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, lambda received, _: got.append(received))
while True:
    while not got:
        time.sleep(0.01)
    if got.pop(0) == signal.SIGTERM:
        stop(worker)
        break
    reload()
