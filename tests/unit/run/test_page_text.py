"""The HTML page of a result, without its charts. tests/live/test_result_page.py opens a page in a browser."""

import functools
import itertools
import re

import pytest
from formatted import formatted
from markupsafe import escape
from sample_results import HOSTILE, RESULTS, result
from simulated_record import bare_record, record_of, result_of
from simulated_trace import trace_of

from under_siege.judge.ranking import summarize
from under_siege.record.record import Failure
from under_siege.record.result import Required
from under_siege.run.view import view
from under_siege.show import html_page


@functools.cache
def page(name: str) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(html_page, "for_page", lambda *_: "<svg></svg>")
        return formatted(result(name), "html")


def text_of(page: str) -> str:
    """Return the visible text of a page, with a line for each block or row."""
    text = re.sub(r"<(head|svg)\b.*?</\1>", "", page, flags=re.DOTALL).replace("\n", " ")
    text = re.sub(r"</(?:p|h\d|tr|li|dd|caption|summary|figcaption|div)>|<br>", "\n", text)
    text = re.sub(r"<[^>]+>", "", re.sub(r"</t[dh]>", " | ", text))
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))


def test_the_text_of_a_page_has_the_conclusion_flags_requirements_conditions_and_a_glossary(golden, undrawn) -> None:
    records = [
        bare_record(),
        record_of("1_sync"),
        record_of("4_async_processexecutor", workers=2),
        record_of("7_lies", workers=40, speed=3),
        record_of("8_dies", failure=Failure("died", "it died")),
    ]
    small = result_of(records, packages_of={"3.11.7": {"flask": "3.1"}})
    small.traces.append(trace_of(["1/MainThread"]))
    small.requirements += [Required("rate >= 10/s"), Required("availability >= 99.9%")]
    golden(text_of(formatted(small, "html")))


@pytest.mark.parametrize("name", RESULTS)
def test_a_page_is_a_single_file_without_scripts_whose_headings_and_terms_are_complete(name: str) -> None:
    assert "<script" not in page(name)
    assert "<img" not in page(name)
    assert "http://" not in page(name).replace("http://127.0.0.1", "")
    levels = [int(level) for level in re.findall(r"<h(\d)", page(name))]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    targets = re.findall(r'popovertarget="([^"]+)"', page(name))
    assert set(targets) == set(re.findall(r'<div popover id="([^"]+)"', page(name)))


def test_untrusted_text_is_escaped() -> None:
    assert HOSTILE not in page("hostile")
    assert escape(HOSTILE) in page("hostile")


def test_the_page_shows_every_case_in_the_table_and_in_the_texts_of_charts() -> None:
    comparison = summarize(result("sample"))
    rows = page("sample").partition('<table class="cases')[2].partition("</table>")[0].count('<tr role="row" class="')
    assert rows == len(comparison.cases) + len(comparison.ceilings)
    labels = re.findall(r'role="img" aria-label="([^"]*)"', page("sample"))
    assert len(labels) == 2 * page("sample").count("<figure")
    assert all("4_async_processexecutor" in label for label in labels)


def test_results_with_several_tasks_and_numbers_of_users_have_a_heat_map_and_curves() -> None:
    names = {figure.name for figure in view(summarize(result("several"))).figures}
    assert {"heatmap", "rate-sweep"} <= names


def test_the_page_lists_the_packages_of_each_python() -> None:
    def facts(**environment) -> dict[str, str]:
        result = result_of([bare_record(), record_of("1_sync")], **environment)
        return {name: value for name, value in view(summarize(result)).facts if "packages" in name}

    assert facts(packages_of={"3.11.7": {"flask": "3.1"}}) == {"packages": "flask 3.1"}
    assert facts(packages_of={"3.11.7": {"flask": "3.1", "pebble": "5"}, "3.14.0t": {"flask": "3.2"}}) == {
        "packages of Python 3.11.7": "flask 3.1, pebble 5",
        "packages of Python 3.14.0t": "flask 3.2",
    }
