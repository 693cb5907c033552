"""Servers that let the bench wait: it waits as long as it says, and nobody else suffers."""

import pytest
from besieging import Besieged, besiege, hostile
from left_behind import described, marking

pytestmark = pytest.mark.figures


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Besieged]:
    """One run with all of them, and with one that is as it should be; nothing of them is left after it."""
    servers = [hostile(name) for name in ("never_ready", "clings_to_its_port", "slow_to_start")]
    with marking() as left:
        found = besiege(tmp_path_factory.mktemp("waiting"), [*servers, "2"])
        assert not described(left())
    return found


def test_one_that_is_slow_to_start_is_waited_for(besieged: dict[str, Besieged]) -> None:
    slow = besieged["slow_to_start"]
    assert slow.summary.verdict != "failed"
    assert slow.record.ready_s >= 2
    assert slow.summary.transactions > 0


def test_one_that_is_never_ready_is_given_up_after_fifteen_seconds(besieged: dict[str, Besieged]) -> None:
    never = besieged["never_ready"]
    assert never.why == "not_ready"
    assert "not ready within 15 s" in never.words
    assert 15 <= never.record.case_s < 60


def test_one_that_clings_to_its_port_is_ended_with_its_runaway_child(besieged: dict[str, Besieged]) -> None:
    clinging = besieged["clings_to_its_port"]
    assert clinging.summary.verdict != "failed"
    assert 5 <= clinging.record.stop_s < 30
    assert clinging.record.failure is None  # as it would be if its port were still taken


def test_the_one_beside_them_is_measured(besieged: dict[str, Besieged]) -> None:
    beside = besieged["2_async"].summary
    assert beside.verdict != "failed", beside.reasons
    assert beside.transactions > 0
