"""Errors that are detected before anything starts, printed in one line."""


class BadInputError(ValueError):
    """What was asked for can't be done. One line: what is wrong, what was expected, what to try."""


def one_line(error: BaseException) -> str:
    """`ValueError: what it says`, without line breaks; of a group the first one in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said = " ".join(str(error).split())[:500]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
