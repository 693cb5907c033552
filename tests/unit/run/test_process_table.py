"""What `report --processes` shows."""

import json
from collections.abc import Callable

import pytest
from simulated_record import bare_record, result_of
from test_process_notes import crowded, replaced

from under_siege.judge.ranking import summarize
from under_siege.run.processes import short_command, view
from under_siege.show.formats import rendered
from under_siege.show.view import View


@pytest.fixture(scope="module")
def shown() -> View:
    records = [crowded([3, 22], 1.0, 1.0, server="crowded"), replaced(1.3, 1.5, server="replaced")]
    records.append(crowded([4, 4], 1.0, 1.0, server="even"))
    return view(summarize(result_of([bare_record(), *records])))


@pytest.mark.parametrize("output_format", ["table", "markdown", "csv"])
def test_each_process_has_a_row(output_format: str, shown: View, golden: Callable[..., None]) -> None:
    golden(*(line.rstrip() for line in rendered(shown, output_format).splitlines()))


def test_json_has_the_documented_keys(shown: View) -> None:
    cases = {case["server"]: case for case in json.loads(rendered(shown, "json"))["cases"]}
    worker = cases["crowded"]["processes"][1]
    assert {key: worker[key] for key in ("role", "cpu_share", "memory_bytes", "connections", "began_s", "ended_s")} == {
        "role": "worker",
        "cpu_share": 0.5,
        "memory_bytes": {"start": 20_000_000, "end": 20_000_000},
        "connections": {"least": 3, "most": 3},
        "began_s": -2.0,
        "ended_s": None,
    }


def test_charts_that_explain_figures_come_first(shown: View) -> None:
    assert [figure.headline.split(":")[0] for figure in shown.figures] == [
        "Both workers were replaced within 0.2 s",
        "3 of 25 users shared one of 2 workers, 22 the other",
        "",
    ]
    assert all("<svg" in figure.alone() for figure in shown.figures)


def test_commands_are_shown_without_directories() -> None:
    assert short_command("/x/bin/python3.11 -m uvicorn app:app --port 80") == "uvicorn app:app --port 80"
    assert short_command("/x/python /x/bin/gunicorn app:app") == "gunicorn app:app"
    assert short_command("python -c from multiprocessing.resource_tracker import main;main(6)") == "resource tracker"
