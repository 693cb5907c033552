"""In gunicorn's workers, exclude from garbage collection all objects that were loaded before the fork."""

import gc


def pre_fork(_server: object, _worker: object) -> None:
    gc.freeze()
