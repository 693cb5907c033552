"""Find the packages that servers need; environments for other Pythons contain only these packages."""

from pathlib import Path

import pytest
from conftest import ROOT, SERVERS

from under_siege.host.environments import _package, _requirements
from under_siege.measure.prepare import needed_by

OURS = set(map(_package, _requirements()))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["3_async_threadexecutor"], {"tornado"}),
        (["6_gevent"], {"flask", "gevent"}),
        (["7_async_interpreters", "8_prefork"], {"tornado", "flask", "gunicorn"}),
    ],
)
def test_needed_packages_include_indirect_imports(names: list[str], expected: set[str]) -> None:
    found = needed_by([ROOT / "servers" / f"{name}.py" for name in names], ["primes"])
    assert found is not None
    assert found & OURS == expected


def test_every_package_in_the_requirements_of_the_project_is_needed_by_a_server() -> None:
    found = needed_by(SERVERS, ["primes"])
    assert found is not None
    assert found >= OURS - {"psutil"}  # bench.py try runs with it


def test_the_needed_packages_of_user_files_are_unknown(tmp_path: Path) -> None:
    assert needed_by([SERVERS[1], tmp_path / "2_async.py"], ["primes"]) is None
    assert needed_by([SERVERS[1]], ["mine:work"]) is None
    assert needed_by([None], []) is None
