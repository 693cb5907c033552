"""Check the requirements of a suite before anything is measured."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from common.errors import BadInputError
from under_siege.judge.goal import NAMES, goal, required
from under_siege.load import DRIVERS
from under_siege.paths import PROGRAM
from under_siege.suite.requests import prefixed
from under_siege.suite.suite import Suite
from under_siege.suite.suite_file import ALL


def check_requirements(suite: Suite) -> None:
    """Raise BadInputError, with the name of the key, if a requirement in the suite file is invalid."""
    for requirement in suite.required:
        with prefixed(": ".join(filter(None, [suite.source, f"require.{requirement.server or ALL}"]))):
            goal(requirement.text)


def with_required(suite: Suite, texts: Sequence[str], *, has_base: bool = False) -> Suite:
    """Return the suite with more requirements; raise BadInputError if any is invalid or can't be measured."""
    check_requirements(suite)
    further = required(texts)
    for requirement in further:
        if goal(requirement.text).of_base and not has_base:
            raise BadInputError(
                f"{requirement.text!r}: needs a base; use it with --against, with {PROGRAM} compare, or in a suite"
            )
    requirements = tuple(dict.fromkeys((*suite.required, *further)))
    unmeasured = dict(_unmeasured(suite))
    for requirement in requirements:
        if reason := unmeasured.get(goal(requirement.text).figure):
            known = ", ".join(name for name, metric in NAMES.items() if metric.key not in unmeasured)
            raise BadInputError(f"{requirement.text!r}: {reason}; metrics that can be measured: {known}")
    return replace(suite, required=requirements)


def _unmeasured(suite: Suite) -> Iterator[tuple[str, str]]:
    """Yield the key of each metric that no case of the suite will have, with the reason."""
    driver = DRIVERS.get(suite.load.tool)
    for metric in NAMES.values():
        if metric.key.startswith("ping_") and suite.ping is None:
            yield metric.key, "no pings are sent; name a path under [ping], or with --ping"
        elif metric.key.startswith("response_") and driver and not driver.reports_percentiles:
            yield metric.key, f"{suite.load.tool} reports no percentiles"
        elif metric.key == "of_ceiling" and suite.ceiling is None:
            yield metric.key, "there is no ceiling"
        elif metric.needs_process and not any(each.command for each in suite.targets):
            yield metric.key, "this metric can't be measured for servers that are already running"
