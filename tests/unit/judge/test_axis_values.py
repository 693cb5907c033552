"""The table that compares the values of an axis, such as versions of a package, shows only significant differences."""

import io
from typing import Any

import pytest
from golden_file import assert_golden
from rich.console import Console
from simulated_record import bare_record, record_of, result_of

from common.errors import BadInputError
from under_siege.judge.axis_differences import Across, across_of
from under_siege.judge.ranking import summarize
from under_siege.record.record import Machine, Record
from under_siege.run.matrix import across_view
from under_siege.show.formats.table import renderable


def versions(faster: float, again: float = 0.765, **changes: Any) -> list[Record]:
    """Return records of a version that was measured twice, and of one that is `faster` times as fast."""
    found = [bare_record(round_) for round_ in (1, 2, 3)]
    for version, speed in (("3.10.1", 0.75 * faster), ("3.8.6", 0.75), ("3.8.6.0", again)):
        for round_, noise in ((1, 0.98), (2, 1.0), (3, 1.01)):
            parameters = {"aiohttp": version}
            found.append(record_of("1_x", round_, speed=speed * noise, parameters=parameters, **changes))
    return found


def compared(records: list[Record]) -> Across:
    return across_of(summarize(result_of(records)), "aiohttp")


def test_differences_between_versions_are_shown_if_they_exceed_the_noise() -> None:
    across = compared(versions(1.25))
    assert across.values == ["3.8.6", "3.8.6.0", "3.10.1"]
    ((_, cells),) = across.rows.items()
    assert cells["3.10.1"].differences["rate_per_s"] == pytest.approx(0.25, abs=0.02)
    assert cells["3.8.6.0"].differences == {"rate_per_s": None, "cpu_s_per_transaction": None}
    assert cells["3.8.6"].differences["rate_per_s"] is None
    assert across.noise["rate_per_s"] == pytest.approx(0.02, abs=0.01)


@pytest.mark.parametrize(("faster", "again"), [(1.02, 0.765), (1.25, 1.05)], ids=["small difference", "large noise"])
def test_a_difference_that_does_not_exceed_the_noise_is_blank(faster: float, again: float) -> None:
    ((_, cells),) = compared(versions(faster, again)).rows.items()
    assert cells["3.10.1"].differences["rate_per_s"] is None


def test_cases_on_a_busy_machine_do_not_increase_the_noise_of_other_cases() -> None:
    """Differences between cases on a busy machine count as noise only if no other identical cases were measured."""
    busy = Machine(total_s=8, busy_s=8, steal_s=0)
    restless = versions(1.25, again=0.4, machine=busy, users=20)[3:]
    assert compared([*versions(1.25), *restless]).noise["rate_per_s"] == pytest.approx(0.02, abs=0.01)
    assert compared([*versions(1)[:3], *restless]).noise["rate_per_s"] > 0.5


def test_an_axis_with_fewer_than_two_values_is_rejected() -> None:
    with pytest.raises(BadInputError, match="'size'"):
        across_of(summarize(result_of(versions(1.25))), "size")


def test_narrow_terminals_split_the_table_instead_of_truncating_figures(renew: bool) -> None:
    printed = io.StringIO()
    for width in (60, 80, 140):
        table = renderable(across_view(summarize(result_of(versions(1.25))), "aiohttp"))
        Console(width=width, file=printed, color_system=None).print(table)
    assert "…" not in printed.getvalue()
    assert_golden("axis_values.txt", printed.getvalue(), renew)
