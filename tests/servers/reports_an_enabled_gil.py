"""A server that reports, as a free-threaded Python would, that importing a module has enabled the GIL."""

import sys

from minimal_server import serve

from common.options import server_options

print(
    "<frozen importlib._bootstrap>:491: RuntimeWarning: The global interpreter lock (GIL) has been enabled to load "
    "module 'greenlet._greenlet', which has not declared that it can run safely without the GIL.",
    file=sys.stderr,
    flush=True,
)
serve(server_options(), pong={"X-GIL": "on"})
