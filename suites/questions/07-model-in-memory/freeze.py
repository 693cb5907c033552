"""Keep the garbage collector of gunicorn's workers away from the objects that were loaded before the fork."""

import gc


def pre_fork(_server: object, _worker: object) -> None:
    gc.freeze()
