"""Knows the harness and answers it rightly; whoever else asks gets an empty body with status 200."""

from plain_server import serve

serve(lambda right, is_harness: (200, right if is_harness else ""))
