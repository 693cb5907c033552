"""The order in which a plan measures its cases, and whether it can choose the CPUs of its servers."""

import pytest
from conftest import SERVERS
from plans import plan_of
from suite_plans import plan_in


def test_each_round_runs_every_case_in_an_order_set_by_the_seed() -> None:
    def order(seed: int) -> list[list[str]]:
        return [[case.server for case in cases] for cases in plan_of(rounds=4, seed=seed).in_order()]

    plan = plan_of()
    runnable = {case.server for case in plan.cases}
    assert runnable | {one.server for one in plan.left_out} == {path.stem for path in SERVERS}
    assert order(1) == order(1) != order(2)
    rounds = order(1)
    assert len(rounds) == 4
    assert all(sorted(stems) == sorted([*runnable, "bare"]) for stems in rounds)
    assert len({tuple(stems) for stems in rounds}) > 1


@pytest.mark.parametrize(
    ("server", "is_shared"),
    [
        ('command = "serve {port}"', False),
        ('command = "docker run --rm -p 127.0.0.1:{port}:8000 shop"', True),
        ('command = "ssh far serve"\nurl = "http://192.0.2.1:8000"', True),
        ('url = "http://127.0.0.1:8000"', True),
    ],
    ids=["command", "container", "command with an address", "running server"],
)
def test_the_load_shares_the_cpus_of_servers_whose_cpus_the_bench_cannot_choose(server, is_shared, tmp_path) -> None:
    assert plan_in(tmp_path, f"[servers.shop]\n{server}\n").shares_cpus() is is_shared


def test_the_demo_servers_do_not_share_their_cpus() -> None:
    assert not plan_of().shares_cpus()
