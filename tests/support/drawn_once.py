"""Draw the charts of large pages quickly."""

import contextlib
import dataclasses
from collections.abc import Iterator

import pytest

from under_siege.show import html_page
from under_siege.show.view import Figure


@contextlib.contextmanager
def each_kind_drawn_once() -> Iterator[None]:
    """Draw each kind of chart only once and reuse it for all tasks, to save time."""
    figure, drawn = html_page.drawn, {}

    def first_of_its_kind(chart: Figure) -> html_page.PageFigure:
        if chart.name not in drawn:
            drawn[chart.name] = figure(chart)
        texts = {name: getattr(chart, name) for name in ("title", "headline", "how", "conditions")}
        return dataclasses.replace(drawn[chart.name], **texts)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(html_page, "drawn", first_of_its_kind)
        yield
