"""A suite: targets that are compared under one load, and the one that is the ceiling of the others."""

from dataclasses import dataclass

from common.model.target import Target


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent, beside the users, which are an axis."""

    tool: str = "siege"
    path: str = "/"  # with axes in braces: `/report?size={size}`
    time_s: float | None = None  # None: as long as each case needs
    requests: int | None = None  # so many instead of so long
    keep_alive: bool = False
    threads: int = 1  # of the tool, where it may have several
    options: tuple[str, ...] = ()  # further words for the tool
    own_network: bool = False  # a network namespace of its own, with its own ports


@dataclass(frozen=True, slots=True)
class Suite:
    """What is compared."""

    targets: tuple[Target, ...]
    ceiling: Target | None
    load: Load = Load()
