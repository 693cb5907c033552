"""Servers that die: reported as dead, with their last words, whoever notices it first."""

import shutil

import pytest
from besieging import HOSTILE, Besieged, besiege, hostile

from under_siege.load_tools.siege import Siege

WAYS = ("dies-1-suddenly", "dies-1-slowly", "dies-2-slowly", "dies-3-suddenly")


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Besieged]:
    """One run with all of them, and with one that lives; our requests are not like siege's: some die only at ours."""
    folder = tmp_path_factory.mktemp("dying")
    shutil.copy(HOSTILE / "plainly.py", folder)  # which the others import
    for way in WAYS:
        shutil.copy(HOSTILE / "dies_when_asked.py", folder / f"{way}.py")
    shutil.copy(HOSTILE / "dies_after_a_second.py", folder / "dies_at_work.py")
    servers = [hostile(name) for name in ("dies_at_once", "dies_in_the_middle", "dies_after_a_second")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Siege, "is_replayed", False)
        return besiege(folder, [*servers, *(f"{way}.py" for way in ("dies_at_work", *WAYS)), "2"])


def test_one_that_dies_at_once_is_reported_at_once_with_its_last_words(besieged: dict[str, Besieged]) -> None:
    dead = besieged["dies_at_once"]
    assert (dead.summary.verdict, dead.summary.rate_per_s) == ("failed", None)
    assert dead.why == "died"
    assert "exit code 1" in dead.words
    assert "its last line: no database at db:5432" in dead.words
    assert dead.record.case_s < 12  # not the fifteen seconds that a server has to become ready


@pytest.mark.figures
def test_one_that_dies_in_the_middle_fails_and_keeps_what_was_measured(besieged: dict[str, Besieged]) -> None:
    dead = besieged["dies_in_the_middle"]
    assert dead.summary.verdict == "failed"
    assert "its last line: Segmentation fault" in dead.words
    assert 0 < len(dead.record.transactions.status) <= 2


@pytest.mark.parametrize("way", WAYS)
def test_one_that_a_request_sees_dying_is_reported_as_dead_with_its_last_words(
    way: str, besieged: dict[str, Besieged]
) -> None:
    """The first request warms up, the second is sent under siege, the third is the last check."""
    dead = besieged[way]
    assert dead.why == "died"
    assert "ended with exit code 1" in dead.words
    assert "its last line: no database at db:5432" in dead.words
    assert bool(dead.record.tool_command) == ("-1-" not in way)


def test_one_that_dies_by_itself_is_reported_with_its_last_words(besieged: dict[str, Besieged]) -> None:
    assert besieged["dies_after_a_second"].why == "died"
    assert "its last line: no licence any more" in besieged["dies_after_a_second"].words


def test_one_that_dies_by_itself_while_it_warms_up_is_too(besieged: dict[str, Besieged]) -> None:
    dead = besieged["dies_at_work"]
    assert dead.why == "died"
    assert "its last line: no licence any more" in dead.words
    assert not dead.record.tool_command


@pytest.mark.figures
def test_the_one_beside_them_is_measured(besieged: dict[str, Besieged]) -> None:
    assert besieged["2_async"].summary.verdict != "failed"
    assert besieged["2_async"].summary.transactions > 0
