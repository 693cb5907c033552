"""How a strategy runs a task is declared in its file, or derived from its imports."""

from pathlib import Path

import pytest

from common.errors import BadInputError
from under_siege.suite.strategies import read_strategy
from under_siege.suite.suite import Kind

SERVER = '"""Serves, on a --port."""\n'


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("from concurrent.futures import ThreadPoolExecutor", Kind.THREADS),
        ('from new_library import Pool\n\nKIND = "processes"', Kind.PROCESSES),
        ('from concurrent.futures import ThreadPoolExecutor\n\nKIND = "sub-interpreters"', Kind.INTERPRETERS),
        ("from new_library import Pool", Kind.UNKNOWN),
    ],
)
def test_the_kind_of_a_strategy_is_declared_or_derived(lines: str, kind: Kind, tmp_path: Path) -> None:
    (tmp_path / "14_new.py").write_text(SERVER + lines)
    assert read_strategy(tmp_path / "14_new.py").kind == kind


def test_an_unknown_kind_causes_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "14_new.py").write_text(f'{SERVER}KIND = "magic"')
    with pytest.raises(BadInputError, match=r"KIND must be one of .*'processes'") as caught:
        read_strategy(tmp_path / "14_new.py")
    assert "\n" not in str(caught.value)
