"""What `profile` shows of profiles with known stacks."""

from simulated_profile import LOOP, MAIN, RENDER, ROUTE, SELECT, profile_of
from simulated_record import result_of

from under_siege.profile.view import HOW_TO_READ, figures, view
from under_siege.record.record import Profile
from under_siege.record.result import Result
from under_siege.show.formats.table import rendered


def result_with(*profiles: Profile) -> Result:
    result = result_of([])
    result.profiles.extend(profiles)
    return result


def blocked() -> Profile:
    idle = (1, MAIN, [LOOP, SELECT], (10, 0, 0))
    return profile_of((1, MAIN, [LOOP, ROUTE, RENDER], (90, 90, 90)), idle)


def failed() -> Profile:
    return Profile(server="node", title="", values={"users": 25}, failure="none of its processes runs CPython")


def test_a_terminal_shows_each_diagnosis_and_each_failure(golden) -> None:
    shown = view(result_with(failed(), blocked()))
    assert shown.exit_code == 1
    assert view(result_with(blocked())).exit_code == 0
    golden(rendered(shown), rendered(view(result_with())))


def test_the_first_flame_graph_on_a_page_is_explained() -> None:
    first, second = figures(result_with(blocked(), failed(), blocked()))
    assert first.how == f"{second.how}\n{HOW_TO_READ}"
    assert RENDER.place in second.how
