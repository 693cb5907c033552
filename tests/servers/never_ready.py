"""A server that accepts connections but never answers."""

import signal
import socket
import sys

port = int(sys.argv[sys.argv.index("--port") + 1])
listener = socket.create_server(("127.0.0.1", port))
connections = []
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
while True:
    connections.append(listener.accept())
