"""Write a model file of the given size in megabytes, unless it exists."""

import sys
from pathlib import Path

import numpy as np

size_mb = int(sys.argv[1])
path = Path("model") / f"{size_mb}.npy"
if not path.exists():
    path.parent.mkdir(exist_ok=True)
    vectors = np.random.default_rng(7).standard_normal((size_mb * 1_000_000 // 1024, 256), dtype=np.float32)
    vectors[7] = 10.0  # makes this row the best match
    unfinished = path.with_suffix(".new.npy")
    np.save(unfinished, vectors)
    unfinished.rename(path)
