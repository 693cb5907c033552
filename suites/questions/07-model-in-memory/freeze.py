"""Exclude objects that were loaded before the fork from garbage collection in gunicorn's workers."""

import gc


def pre_fork(_server: object, _worker: object) -> None:
    gc.freeze()
