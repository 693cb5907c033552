"""Loads for load tools, whose settings are those of a `Load` or those that the bench adds."""

from dataclasses import fields
from typing import Any

from under_siege.load.request import Load
from under_siege.load.tool import LoadSpec

_OF_LOADS = {each.name for each in fields(Load)}


def load_spec(users: int, time_s: float, url: str, requests: int | None = None, **settings: Any) -> LoadSpec:
    load = Load(requests=requests, **{name: value for name, value in settings.items() if name in _OF_LOADS})
    added = {name: value for name, value in settings.items() if name not in _OF_LOADS}
    return LoadSpec(load, users, time_s, url, **added)
