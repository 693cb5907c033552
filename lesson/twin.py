"""Server 2 under another name: any difference between the two is noise."""

import runpy
from pathlib import Path

# The server reads arguments such as --port from sys.argv, which this file does not change.
runpy.run_path(str(Path(__file__).parents[1] / "servers" / "2_async.py"), run_name="__main__")
