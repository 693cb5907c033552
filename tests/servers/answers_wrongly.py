"""Always gives another answer than the task."""

from plainly import serve

from common.options import server_options

serve(server_options(), lambda _: (200, "42"))
