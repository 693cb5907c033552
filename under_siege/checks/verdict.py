"""The verdicts, and what a reason for one is."""

import msgspec

OK, SUSPECT, UNCLEAR, FAILED = "ok", "suspect", "unclear", "failed"


class Reason(msgspec.Struct, frozen=True):
    """Why a verdict is not `ok`."""

    code: str
    message: str
