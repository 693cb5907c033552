"""Prints as much as it can on stdout and stderr while it serves."""

import os
import threading

from plainly import serve

from common.options import server_options


def flood(stream):
    while True:  # past Python's buffers, whose locks it could not get any more while it shuts down
        os.write(stream, b"all work and no play makes a dull server\n" * 1000)


options = server_options()
threading.Thread(target=flood, args=[1], daemon=True).start()
threading.Thread(target=flood, args=[2], daemon=True).start()
serve(options)
