"""Its first answer lacks the last character; a tool that takes that one for the measure of all holds it for right."""

import itertools

from plain_server import serve

requests = itertools.count()

serve(lambda right, _: (200, right if next(requests) else right[:-1]))
