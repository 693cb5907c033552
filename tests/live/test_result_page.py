"""The page of a result in a real browser, at two widths, light and dark; test_page_text.py reads the page."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import LEAST_CONTRAST, Opened, opened
from drawn_once import each_kind_drawn_once
from formatted import formatted
from sample_results import result

from under_siege.judge.ranking import summarize

NARROW, WIDE = 390, 1440


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """Open the page of a result with several tasks and numbers of users, failed and suspect cases and requirements."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    with each_kind_drawn_once():
        path.write_text(formatted(result("several"), "html"))
    assert path.stat().st_size < 1_500_000
    with opened(path) as page:
        yield page


def cut(shown: Opened) -> list[str]:
    """Return the classes of the elements whose content is wider than the element in the current medium."""
    return shown.page.evaluate(
        """[...document.querySelectorAll('.scroll, table, caption, p, dl')].filter(
            (one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0).map((one) => one.className)"""
    )


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_flags_and_terms_are_explained_when_they_are_clicked(shown: Opened, width: int) -> None:
    shown.look(width, "light")
    reasons = next(case.reasons for case in summarize(result("several")).cases if case.verdict == "suspect")
    flag = shown.page.locator("table.cases summary", has_text="suspect: above ceiling").first
    explanation = shown.page.locator("table.cases").get_by_text(reasons[0].message).first
    for is_open in (False, True, False):
        assert explanation.is_visible() is is_open
        flag.click()
    flag.click()
    term, note = shown.page.locator(".answer .term", has_text="health checks"), shown.page.locator(".note")
    assert term.count() == 1  # only the first occurrence is a button
    term.click()
    assert sum(one.is_visible() for one in note.all()) == 1
    assert shown.overflow() <= 0
    shown.page.keyboard.press("Escape")
    assert not any(one.is_visible() for one in note.all())
    explained = shown.page.locator(".words .term" if width == NARROW else "table.cases .term").all_inner_texts()
    assert {"trans/s", "of ceiling", "ping p99"} <= {" ".join(text.split()) for text in explained}


def test_the_page_opens_offline_fits_every_width_and_has_enough_contrast(shown: Opened) -> None:
    shown.page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    for width, scheme in itertools.product((NARROW, WIDE), ("light", "dark")):  # each combination has its own charts
        shown.look(width, scheme)
        assert shown.overflow() <= 0, width
        assert cut(shown) == [], width
        contrast, text = shown.page.evaluate(LEAST_CONTRAST)
        assert contrast >= 4.5, (text, width, scheme)
    assert shown.complaints == []


def test_the_charts_show_every_case_at_each_width(shown: Opened) -> None:
    servers = {case.server for case in summarize(result("several")).cases if case.verdict != "failed"}
    for width, size in ((NARROW, "narrow"), (WIDE, "wide")):
        shown.look(width, "light")
        charts = shown.page.locator(f"figure .{size}")
        assert {chart.bounding_box()["width"] <= width for chart in charts.all()} == {True}
        assert all(server in charts.nth(1).text_content() for server in servers)  # the heat map


def test_the_printed_page_is_not_cut_off_and_explains_terms_and_flags(shown: Opened, tmp_path: Path) -> None:
    shown.look(WIDE, "light")
    shown.page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = false))")
    shown.page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert (tmp_path / "page.pdf").stat().st_size > 10_000
    shown.page.emulate_media(media="print")
    assert cut(shown) == []
    assert all(word.is_visible() for word in shown.page.locator("dl.glossary dt").all())
    assert shown.page.get_by_text("it died").last.is_visible()  # although no flag was clicked
    shown.page.emulate_media(media="screen")
