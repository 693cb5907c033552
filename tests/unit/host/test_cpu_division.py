"""Which CPUs servers may use, and which ones are for the load tool and the bench."""

import os

import pytest

from under_siege.host import cpu_division
from under_siege.host.cpu_division import CpuDivision, current_division, divided, server_cpu_limit, server_cpus


def own_core(cpu: int) -> int:
    return cpu


@pytest.mark.parametrize(("count", "for_load"), [(1, 0), (2, 0), (3, 0), (4, 1), (7, 1), (8, 2), (16, 4)])
def test_one_in_four_cpus_is_for_the_load(count, for_load) -> None:
    division = divided(range(count), own_core)
    assert (len(division.servers), len(division.load)) == (count - for_load, for_load)
    assert division.servers | division.load == set(range(count))


@pytest.mark.parametrize(
    ("cpus", "load"), [({2, 5}, set()), ({1, 3, 8, 9}, {9}), ({40, 2, 3, 4, 5, 6, 7, 8}, {8, 40})], ids=str
)
def test_only_cpus_that_the_bench_may_use_are_divided(cpus, load) -> None:
    assert divided(cpus, own_core) == CpuDivision(frozenset(cpus - load), frozenset(load))


@pytest.mark.parametrize(
    ("core_of", "load"),
    [(lambda cpu: cpu % 4, {3, 7}), (lambda cpu: cpu - cpu % 2, {6, 7})],
    ids=["siblings 0 and 4", "siblings 0 and 1"],
)
def test_the_load_gets_whole_cores(core_of, load) -> None:
    assert divided(range(8), core_of).load == load


@pytest.fixture
def eight_cpus(monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(cpu_division, "cpu_limit", lambda: 8)
    monkeypatch.setattr(cpu_division, "_core_of", own_core)


@pytest.mark.usefixtures("eight_cpus")
def test_servers_may_use_the_cpus_that_the_load_does_not_get() -> None:
    assert (server_cpu_limit(), server_cpus()) == (6, 6)
    assert current_division(is_shared=True) == CpuDivision(frozenset(range(8)))


@pytest.mark.usefixtures("eight_cpus")
@pytest.mark.parametrize("quota", [0.5, 4.0])
def test_a_cpu_quota_of_the_bench_is_shared(quota, monkeypatch) -> None:
    monkeypatch.setattr(cpu_division, "cpu_limit", lambda: quota)
    assert current_division().load == set()
    assert (server_cpu_limit(), server_cpus()) == (quota, max(1, int(quota)))


def test_without_cpus_of_its_own_the_load_uses_those_of_the_servers() -> None:
    shared, own = CpuDivision(frozenset({0, 1})), CpuDivision(frozenset({0, 1, 2}), frozenset({3}))
    assert (shared.of(is_load=True), own.of(is_load=True), own.of(is_load=False)) == ({0, 1}, {3}, {0, 1, 2})
