"""A server that answers pings correctly, and all other requests with bytes that are not HTTP."""

import signal
import socket
import sys

port = int(sys.argv[sys.argv.index("--port") + 1])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
listener = socket.create_server(("127.0.0.1", port))
while True:
    connection, _ = listener.accept()
    request = connection.recv(65536)
    pong = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\npong"
    connection.sendall(pong if b"/ping" in request else b"\x00\xff noise \r\n\r\n")
    connection.close()
