"""A server that sends a wrong response to every task request."""

from minimal_server import serve

from common.options import server_options

serve(server_options(), lambda _: (200, "42"))
