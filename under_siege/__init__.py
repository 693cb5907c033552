"""Benchmark concurrency strategies of Python web servers: the package behind `under-siege` and `bench.py`."""

import atexit
import gc
import sys

from under_siege.paths import ROOT

__version__ = "1.0.0"

if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # so that this package, like the servers, can import `common`

# Without this, about one process in four crashes at exit (https://github.com/msgspec/msgspec/issues/717).
atexit.register(gc.freeze)
