"""Compare concurrency strategies under siege: the bench behind `under-siege` and `bench.py`."""

import sys

from under_siege.paths import ROOT

__version__ = "0.1.0"

if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # to import `common`, which the servers import, too
