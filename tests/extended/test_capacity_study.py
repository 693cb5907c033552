"""The capacity search against many simulated servers of known capacity, and capacity results with edited steps."""

import itertools
import json
import math
from pathlib import Path

import pytest
from simulated_capacity import SERVERS, capacity_of, offered, searched
from simulated_record import result_of

from common.errors import BadInputError
from under_siege.capacity.view import view
from under_siege.cli_options import one_line_read_errors
from under_siege.record.result import load, save
from under_siege.show.formats import rendered

LIMIT_S = 1.0  # of the default goals


@pytest.mark.parametrize("name", ["M/D/1", "M/D/2", "M/M/2", "refuses"])
def test_the_capacity_of_a_simulated_queue_is_found_within_a_minute(name: str) -> None:
    truth, inside = capacity_of(name, LIMIT_S), 0
    for seed in range(20):
        one, result, _ = searched(SERVERS[name], seed)
        assert one.per_s == pytest.approx(truth, rel=0.2)
        assert sum(step.record.case_s for step in result.steps) < 61
        missed = [step.per_s for step in one.steps if step.missed]
        assert one.upper_per_s >= max(step.per_s for step in one.steps if not step.missed)
        assert len(missed) < 2 or one.lower_per_s <= missed[1]
        inside += one.lower_per_s <= truth <= one.upper_per_s
    assert inside >= 17


def test_the_capacity_of_a_cpu_bound_server_is_found_on_a_noisy_machine() -> None:
    inside = 0
    for seed in range(5):
        one, _, machine = searched(SERVERS["M/D/1 cpu"], seed, noisy=True)
        truth = machine.mean_speed(cpus=1) * capacity_of("M/D/1 cpu", LIMIT_S)
        inside += (one.lower_per_s or 0.0) <= truth <= (one.upper_per_s or math.inf)
    assert inside >= 4


def test_a_capacity_result_with_edited_steps_is_shown_or_causes_a_one_line_error(tmp_path: Path) -> None:
    result = result_of([])
    result.steps.append(offered(SERVERS["M/D/1"], 10.0, 2.0, 1, 1))
    save(result, tmp_path / "c.json")
    told = (tmp_path / "c.json").read_text()
    holders = {
        "step": lambda result: result["steps"][0],
        "record": lambda result: result["steps"][0]["record"],
        "requests": lambda result: result["steps"][0]["record"]["requests"],
    }
    places = [(holder, name) for holder, held in holders.items() for name in held(json.loads(told))]
    assert ("requests", "ended_s") in places
    for (holder, name), value in itertools.product(places, (0, 1e6, [], [0.0], "x")):
        changed = json.loads(told)
        holders[holder](changed)[name] = value
        assert is_shown_or_refused(tmp_path / "changed.json", changed), (holder, name, value)


def is_shown_or_refused(path: Path, told: object) -> bool:
    """Return whether the result is shown or rejected with a one-line error; other exceptions fail the test."""
    path.write_text(json.dumps(told))
    try:
        with one_line_read_errors(path):
            shown = view(load(path))
            return bool(rendered(shown, "table") and rendered(shown, "json"))
    except BadInputError as error:
        return "\n" not in str(error)
