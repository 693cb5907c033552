"""Make a reproducible tree of files: python tree.py FOLDER. The name of the folder is the number of files."""

import random
import shutil
import signal
import sys
from pathlib import Path

SEED, IN_A_FOLDER = 20211119, 500
SMALLEST, LARGEST = 1_000, 20_000  # bytes


def make(folder: Path, files: int) -> None:
    """Make the whole tree or nothing; keep an existing tree."""
    if folder.is_dir():
        return
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    numbers = random.Random(SEED)  # noqa: S311 (not for secrets)
    try:
        for number in range(files):
            path = part / f"{number // IN_A_FOLDER:03}" / f"{number:06}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(numbers.randbytes(numbers.randint(SMALLEST, LARGEST)))
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("tree.py: stopped; no tree was created"))
    make(Path(sys.argv[1]), int(Path(sys.argv[1]).name))
