"""What is required of a run, refused before anything starts where no result of it could say."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from common.errors import BadInputError
from under_siege.load_tools.registry import DRIVERS
from under_siege.model.suite import Suite
from under_siege.model.threshold import Required, goal_names, required, together
from under_siege.paths import PROGRAM
from under_siege.targets.toml_table import Table

ALL = "all"  # in a suite: every server


def with_required(suite: Suite, texts: Sequence[str]) -> Suite:
    """The suite, of which that is required, too.

    Raises:
        BadInputError: a requirement can't be read, or is about a figure that is not measured, or about another result.
    """
    given = required(texts)
    for one in given:
        if one.goal.of_base:
            raise BadInputError(f"{one.text!r}: a run has no base: expected that with {PROGRAM} compare, or in a suite")
    everything = together(suite.required, given)
    lacking = dict(_lacking(suite))
    for one in everything:
        if why := lacking.get(one.goal.figure):
            has = ", ".join(name for name, figure in goal_names().items() if figure not in lacking)
            raise BadInputError(f"{one.text!r}: {why}: expected one of {has}")
    return replace(suite, required=tuple(everything))


def _lacking(suite: Suite) -> Iterator[tuple[str, str]]:
    """The figures that nothing in the suite will have, and why."""
    driver = DRIVERS.get(suite.load.tool)
    for figure in goal_names().values():
        if figure.startswith("ping_") and suite.ping is None:
            yield figure, "no pings are sent; name a path under [ping], or with --ping"
        elif figure.startswith("response_") and driver and not driver.tells_percentiles:
            yield figure, f"{suite.load.tool} tells no percentiles"
        elif figure == "of_ceiling" and suite.ceiling is None:
            yield figure, "there is no ceiling"
        elif figure in ("cpu_s_per_transaction", "memory_bytes") and not any(one.command for one in suite.targets):
            yield figure, "that is not known of servers that run already"


def read_required(top: Table, servers: Sequence[str]) -> tuple[Required, ...]:
    """What a suite requires: of all its servers, or of single ones.

    Raises:
        BadInputError: it can't be read, or there is no such server beside the ceiling.
    """
    table = top.below("require", [ALL, *servers])
    found: list[Required] = []
    for name, _ in top.tables("require"):
        texts = table.texts(name)
        try:
            found += required(texts, "" if name == ALL else name)
        except BadInputError as error:
            raise BadInputError(f"{table.where} {name}: {error}") from None
    return tuple(found)
