"""Says with each ping that it has no GIL, whatever Python runs it."""

from plainly import serve

from common.serving.options import server_options

serve(server_options(), pong={"X-GIL": "off"})
