"""Silence the logs of libraries: errors are reported to the client, and requests print nothing."""

import logging


def quieten(*libraries: str) -> None:
    """Whatever these log is not printed; what a task of the user logs is."""
    for library in libraries:
        logging.getLogger(library).setLevel(logging.CRITICAL + 1)
        for name, logger in [*logging.root.manager.loggerDict.items()]:
            if name.startswith(f"{library}.") and isinstance(logger, logging.Logger):
                logger.setLevel(logging.NOTSET)  # Dask gives some of its parts a level of their own
