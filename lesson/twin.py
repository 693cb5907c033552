"""Server 2 under another name: whatever differs between the two is noise."""

import runpy
from pathlib import Path

# Arguments such as --port are passed on to the server that it runs.
runpy.run_path(str(Path(__file__).parents[1] / "servers" / "2_async.py"), run_name="__main__")
