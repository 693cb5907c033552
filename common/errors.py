"""Format errors as one line."""


class BadInputError(ValueError):
    """Raised for invalid input. The message is one line: the problem, the expected input, and a remedy."""


def one_line(error: BaseException) -> str:
    """Return the error as one line, such as `ValueError: message`; for an exception group, use its first exception."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    message = " ".join(str(error).split())[:500]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
