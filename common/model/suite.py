"""A suite: targets that are compared under one load, and the one that is the ceiling of the others."""

from dataclasses import dataclass

from common.model.target import Target


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent, beside the users, which are an axis."""

    tool: str = "siege"
    path: str = "/"
    time_s: float | None = None  # None: as long as each case needs


@dataclass(frozen=True, slots=True)
class Suite:
    """What is compared."""

    targets: tuple[Target, ...]
    ceiling: Target | None
    load: Load = Load()
