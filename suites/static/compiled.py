"""Compile the WhiteNoise of this environment with Cython, unless it is already compiled: python compiled.py"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

MODULES = ("base", "compress", "media_types", "responders", "string_utils")

package = Path(find_spec("whitenoise").origin).parent
if not all(list(package.glob(f"{module}.*.so")) for module in MODULES):
    sources = [f"{module}.py" for module in MODULES]
    # -3: Python 3 semantics; -i: write the modules next to the sources, where the import system prefers them.
    subprocess.run([Path(sys.executable).with_name("cythonize"), "-i", "-3", *sources], cwd=package, check=True)
