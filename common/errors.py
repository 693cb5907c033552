"""Format errors as one line, and silence the logs of libraries."""

import logging


class BadInputError(ValueError):
    """Raised for invalid input. The message is one line: the problem, the expected input, and a remedy."""


def one_line(error: BaseException) -> str:
    """Return the error as one line, such as `ValueError: message`; for an exception group, use its first exception."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    message = " ".join(str(error).split())[:500]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def silence(*libraries: str) -> None:
    """Suppress the logs of these libraries, but not those of the user's task."""
    for library in libraries:
        logging.getLogger(library).setLevel(logging.CRITICAL + 1)
        for name, logger in [*logging.root.manager.loggerDict.items()]:
            if name.startswith(f"{library}.") and isinstance(logger, logging.Logger):
                logger.setLevel(logging.NOTSET)  # Dask sets levels for some of its own loggers
