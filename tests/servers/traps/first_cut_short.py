"""A server that omits the last character of its first response, which some load tools use as their reference."""

import itertools

from plain_server import serve

requests = itertools.count()

serve(lambda right, _: (200, right if next(requests) else right[:-1]))
