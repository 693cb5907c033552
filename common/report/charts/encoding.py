"""By what marks are drawn, in the words of Vega-Lite: to have it built and copied by objects takes longer than drawing.

Whether they are its words is checked against its schema in the tests.
"""

from typing import Any

Words = dict[str, Any]  # of Vega-Lite: a mapping that becomes a part of the specification as it is


def quantity(field: str, **more: Any) -> Words:
    """From numbers in that field."""
    return {"field": field, "type": "quantitative", **more}


def kind(field: str, **more: Any) -> Words:
    """From names in that field."""
    return {"field": field, "type": "nominal", **more}


def either(test: str, value: Any, otherwise: Any) -> Words:
    """One value where the test holds for the row, else the other."""
    return {"condition": {"test": test, "value": value}, "value": otherwise}


def layer(data: str, mark: str, encoding: Words, **style: Any) -> Words:
    """Marks of a kind, one for each row of that data, or one through all of them."""
    return {"data": {"name": data}, "mark": {"type": mark, **style}, "encoding": encoding}
