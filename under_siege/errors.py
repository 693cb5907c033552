"""The error that ends the measurement of one case, but not of the others."""


class CaseFailedError(Exception):
    """This case has no numbers: `code` for programs, the message for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
