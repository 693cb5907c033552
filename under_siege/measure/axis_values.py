"""Combine the values of axes, and mask the secrets in those values that identify cases."""

import itertools
import math
from collections.abc import Mapping, Sequence

from common.errors import BadInputError
from under_siege.load.request import filled
from under_siege.record.case import Value
from under_siege.secrets import masked, masked_difference, masked_template
from under_siege.suite.suite import Target

MOST_POINTS = 10_000  # maximum number of combinations of values on all axes
AxisValue = tuple[str, Value]  # the name of an axis, and a value


def points(axes: Mapping[str, Sequence[Value]]) -> list[dict[str, Value]]:
    """Return every combination of values, with all values except the task filled into the path."""
    axes = {name: values for name, values in axes.items() if values}
    if (count := math.prod(map(len, axes.values()))) > MOST_POINTS:
        raise BadInputError(f"the axes have {count:,} combinations: expected at most {MOST_POINTS:,}")
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    if "path" in axes:
        for point in points:
            point["path"] = filled(str(point["path"]), {**point, "task": "{task}"})
    return points


def shown_values(targets: Sequence[Target], axes: Mapping[str, Sequence[Value]]) -> dict[AxisValue, Value]:
    """Return, for each value of an axis that contains a secret, the masked value that identifies its cases.

    An axis may have any name: the value `7` of the axis `key` is no secret, even in a path such as `/a?key={key}`.

    Raises:
        BadInputError: two values differ only in their secrets.
    """
    shown: dict[AxisValue, Value] = {}
    for name, values in axes.items():
        if name not in ("task", "path"):
            shown |= {(name, value): masked(value) for value in values if isinstance(value, str)}
    without = {name: [shown.get((name, value), value) for value in values] for name, values in axes.items()}
    for path in dict.fromkeys((*map(str, axes.get("path", ())), *(target.requests_path for target in targets))):
        real, same = (
            points({**each, "path": [template]}) for each, template in ((axes, path), (without, masked_template(path)))
        )
        shown |= {("path", point["path"]): other["path"] for point, other in zip(real, same, strict=True)}
    found: dict[AxisValue, Value] = {}
    for (name, value), text in shown.items():
        if (other := found.setdefault((name, text), value)) != value:
            why = f"{masked_difference(str(other), str(value))}, which is masked"
            raise BadInputError(f"two values of the axis {name} are {text} and differ only in {why}; use only one")
    return {key: text for key, text in shown.items() if text != key[1]}
