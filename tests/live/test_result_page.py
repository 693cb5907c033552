"""The HTML report in a real browser: it loads no other files, cuts no text off and draws every mark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import LEAST_CONTRAST, Opened, chromium, opened
from conftest import each_kind_drawn_once
from sample_results import HOSTILE, RESULTS, result
from simulated_record import bare_record, record_of, result_of

from under_siege.judge.ranking import summarize
from under_siege.record.result import Result
from under_siege.report import formatted
from under_siege.run.conclusion import answers
from under_siege.run.view import view

if TYPE_CHECKING:
    from playwright.sync_api import Browser


# To save time, all results of a group show the charts of its first result. No test reads the charts of "published".
OF_THEIR_OWN = [("sample",), ("several", "published"), ("hostile",), ("empty",), ("failed",)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for names in OF_THEIR_OWN:
        with each_kind_drawn_once():
            for name in names:
                (folder / f"{name}.html").write_text(formatted(result(name), "html"))
    return {name: folder / f"{name}.html" for name in RESULTS}


@pytest.mark.parametrize("name", RESULTS)
def test_the_page_opens_offline_fits_every_width_and_has_enough_contrast(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    with opened(browser, pages[name]) as shown:
        for flag in shown.page.locator("summary").all():
            flag.click()
        for width in (390, 768, 1100, 1440):
            shown.look(width, "light")
            assert shown.overflow() <= 0, width
            assert cut(shown) == [], width
        for width, scheme in itertools.product((390, 1440), ("light", "dark")):  # each combination has its own charts
            shown.look(width, scheme)
            contrast, text = shown.page.evaluate(LEAST_CONTRAST)
            assert contrast >= 4.5, (text, width, scheme)
        assert shown.complaints == []


def cut(shown: Opened) -> list[str]:
    """Return the classes of the elements whose content is wider than the element in the current medium."""
    return shown.page.evaluate(
        """[...document.querySelectorAll('.scroll, table, caption, p, dl')].filter(
            (one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0).map((one) => one.className)"""
    )


@pytest.mark.parametrize("name", RESULTS)
def test_the_page_is_a_single_file_smaller_than_1_5_mb(pages: dict[str, Path], name: str) -> None:
    text = pages[name].read_text()
    assert len(text) < 1_500_000
    assert "<script" not in text
    assert "http://" not in text.replace("http://www.w3.org/", "").replace("http://127.0.0.1", "")


def test_the_charts_show_every_case(browser: Browser, pages: dict[str, Path]) -> None:
    comparison = summarize(result("sample"))
    with opened(browser, pages["sample"]) as shown:
        for width, size in ((1440, "wide"), (390, "narrow")):
            shown.look(width, "light")
            for chart in shown.page.locator(f"figure .{size}").all():
                assert chart.locator("svg").bounding_box()["width"] <= width
                text = chart.text_content()
                for case in comparison.cases:
                    assert f"({case.server.split('_')[0]})" in text or case.server in text
        assert shown.count("table.cases tbody tr:not(:has(.why))") == len(comparison.cases) + len(comparison.ceilings)


def test_results_with_several_tasks_and_numbers_of_users_have_a_heat_map_and_curves(
    browser: Browser, pages: dict[str, Path]
) -> None:
    cases = summarize(result("several")).cases
    with opened(browser, pages["several"]) as shown:
        assert shown.page.locator("figure .wide").nth(1).text_content().count("/s") >= len(cases) / 2
        assert shown.page.get_by_role("heading", name="primes: more users").is_visible()
        assert shown.page.get_by_role("heading", name="digest: more users").is_visible()


def test_the_page_lists_each_requirement_and_its_outcome(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["several"]) as shown:
        assert shown.page.get_by_role("heading", name="Requirements").is_visible()
        rows = shown.page.locator("table.requirements tbody tr")
        assert rows.count() == 3 * len(summarize(result("several")).cases)
        for tone in ("good", "worst", "warning"):
            assert shown.page.locator(f"table.requirements td.{tone}").first.is_visible()


@pytest.mark.parametrize("width", [390, 1440])
def test_clicking_a_flag_shows_its_explanation(browser: Browser, pages: dict[str, Path], width: int) -> None:
    reasons = next(case.reasons for case in summarize(result("published")).cases if case.verdict == "suspect")
    with opened(browser, pages["published"], width) as shown:
        table = shown.page.locator("table.cases")
        explanation = table.get_by_text(reasons[0].message)
        assert not explanation.is_visible()
        table.get_by_text("suspect: above ceiling").click()
        assert explanation.is_visible()


def test_untrusted_text_is_shown_as_plain_text(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["hostile"]) as shown:
        assert shown.page.get_by_role("rowheader", name=HOSTILE, exact=True).is_visible()
        assert shown.count("img") == shown.count("script") == 0
        assert shown.complaints == []


def test_charts_and_tables_are_accessible_to_screen_readers(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["sample"]) as shown:
        pictures = shown.page.get_by_role("img").all()
        assert len(pictures) == shown.count("figure")
        for picture in pictures:
            assert "4_async_processexecutor" in picture.get_attribute("aria-label")
        assert shown.page.get_by_role("table").count() == 1
        assert shown.page.get_by_role("columnheader", name="ping p99").count() == 1
        levels = [
            int(tag[1]) for tag in shown.page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(h => h.tagName)")
        ]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


@pytest.mark.parametrize("width", [390, 1440])
def test_clicking_a_term_opens_its_explanation(browser: Browser, pages: dict[str, Path], width: int) -> None:
    with opened(browser, pages["sample"], width) as shown:
        first = shown.page.locator(".answer .term", has_text="health checks")
        assert first.count() == 1  # only the first occurrence is a button
        note = shown.page.locator(".note", has_text="A health check: a trivial request")
        assert not note.is_visible()
        first.click()
        assert note.is_visible()
        assert shown.overflow() <= 0
        shown.page.keyboard.press("Escape")
        assert not note.is_visible()
        table = ".words .term" if width < 500 else "table.cases .term"
        explained = set(shown.page.locator(table).all_inner_texts())
        assert {"trans/s", "of ceiling", "ping p99"} <= {" ".join(text.split()) for text in explained}


def test_each_server_is_shown_with_a_plain_name_and_a_file_name(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["sample"]) as shown:
        assert shown.page.get_by_role("rowheader", name="process pool 4_async_processexecutor").is_visible()
        assert "gunicorn's dirty workers (13_gunicorn_dirty)" in shown.page.locator(".answer").inner_text()


def test_the_caption_of_every_chart_states_the_measurement_conditions(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["sample"]) as shown:
        told = shown.page.locator("figure figcaption").all_inner_texts()
        assert len(told) == shown.count("figure")
        assert all("primes" in one and "2 cores" in one for one in told)
        assert told[0].count("8 requests at the same moment") == 1
        assert all("25 users" in one and " rounds of " in one for one in told[1:])


def test_the_page_shows_the_conclusion_at_the_top(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["sample"]) as shown:
        answer = shown.page.get_by_text(answers(summarize(result("sample")))[0].headline)
        assert answer.bounding_box()["y"] < 300


def test_the_printed_page_is_not_cut_off_and_explains_terms_and_flags(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    with opened(browser, pages["several"]) as shown:
        shown.page.pdf(path=tmp_path / "page.pdf", format="A4")
        assert (tmp_path / "page.pdf").stat().st_size > 10_000
        shown.page.emulate_media(media="print")
        assert cut(shown) == []
        words = shown.page.locator("dl.glossary dt")
        assert {"GIL", "ping", "rank", "p99", "trans/s"} <= set(words.all_inner_texts())
        assert all(word.is_visible() for word in words.all())
        flagged = shown.page.get_by_role("heading", name="Flags").locator("+ ul")
        assert flagged.get_by_text("it died").first.is_visible()  # although no flag was clicked


def large(rounds: int) -> Result:
    """Return a result with five cases for each of twenty numbers of users."""
    records = []
    for round_, users in itertools.product(range(1, rounds + 1), range(1, 21)):
        setting = {"users": users, "time_s": 1.0}
        records += [bare_record(round_, **setting)]
        records += [record_of(f"{number}_server", round_, **setting) for number in range(1, 5)]
    for record in records:  # few transactions, to save time
        for column in (record.transactions.finished_s, record.transactions.took_s):
            del column[10:]
        del record.transactions.status[10:], record.transactions.size_bytes[10:], record.transactions.user[10:]
    return result_of(records)


def test_the_page_of_a_large_result_is_smaller_than_1_mb() -> None:
    result = large(rounds=5)
    assert len(result.records) == 500
    with each_kind_drawn_once():
        assert len(formatted(result, "html")) < 1_000_000


@pytest.mark.slow
def test_the_page_of_a_result_with_100_rounds_is_smaller_than_1_mb() -> None:
    result = large(rounds=100)
    assert len(result.records) == 10_000
    assert len(formatted(result, "html")) < 1_000_000


def test_the_page_lists_the_packages_of_each_python() -> None:
    def facts(**environment) -> dict[str, str]:
        result = result_of([bare_record(), record_of("1_sync")], **environment)
        return {name: value for name, value in view(summarize(result)).facts if "packages" in name}

    assert facts(packages_of={"3.11.7": {"flask": "3.1"}}) == {"packages": "flask 3.1"}
    assert facts(packages_of={"3.11.7": {"flask": "3.1", "pebble": "5"}, "3.14.0t": {"flask": "3.2"}}) == {
        "packages of Python 3.11.7": "flask 3.1, pebble 5",
        "packages of Python 3.14.0t": "flask 3.2",
    }
