"""A server that waits two seconds before it listens."""

import time

from minimal_server import serve

from common.options import server_options

options = server_options()
time.sleep(2)
serve(options)
