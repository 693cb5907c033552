"""How the measurement of one case fails, while that of the others goes on."""


class CaseFailedError(Exception):
    """This case has no numbers: `code` for programs, the message for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
