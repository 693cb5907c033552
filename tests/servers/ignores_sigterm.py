"""A server that ignores SIGTERM, and whose daemon listens on the port and ignores SIGTERM, too."""

import os
import signal
import time
from http.server import HTTPServer

from minimal_server import handler

from common.options import server_options
from common.task import perform

options = server_options()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
server = HTTPServer((options.host, options.port), handler(options, lambda _: perform(options.task)))
if os.fork() == 0:
    os.setsid()
    server.serve_forever()
while True:
    time.sleep(60)
