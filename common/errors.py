"""What went wrong before anything was started."""


class BadInputError(ValueError):
    """What was asked for can't be done. One line: what is wrong, what was expected, what to try."""
