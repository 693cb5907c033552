"""Knows the harness and answers it rightly; whoever else asks is told that there is nothing."""

from plain_server import serve

serve(lambda right, is_harness: (200, right) if is_harness else (404, "Not Found"))
