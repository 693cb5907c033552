"""The order in which a plan measures its cases."""

from conftest import SERVERS
from plans import plan_of


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
