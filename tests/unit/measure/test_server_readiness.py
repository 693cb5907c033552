"""What a server is said to have done until it was given up."""

from types import SimpleNamespace
from typing import Any, cast

from under_siege.measure.server_output import ServerOutput
from under_siege.measure.server_readiness import _not_ready


def server(age_s: float) -> Any:
    plan = SimpleNamespace(suite=SimpleNamespace(application=None))
    return SimpleNamespace(limit_s=15.0, age_s=lambda: age_s, pid=None, url="x", plan=plan, output=ServerOutput(None))


def test_the_time_that_was_waited_agrees_with_that_of_an_accepted_request() -> None:
    late = "GET / was not answered within 60.0 s"
    assert str(_not_ready(cast(Any, server(60.02)), late, None)).startswith(
        f"not ready within 60 s: {late}; if it needs"
    )
    assert str(_not_ready(cast(Any, server(15.0)), "", None)).startswith("not ready within 15 s: nothing listens at x")
