"""A server that floods stdout and stderr."""

import os
import threading

from minimal_server import serve

from common.options import server_options


def flood(stream):
    while True:  # bypass Python's buffers: another thread may hold their locks during shutdown
        os.write(stream, b"all work and no play makes a dull server\n" * 1000)


options = server_options()
threading.Thread(target=flood, args=[1], daemon=True).start()
threading.Thread(target=flood, args=[2], daemon=True).start()
serve(options)
