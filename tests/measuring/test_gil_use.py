"""bench.py try measures whether a task holds the GIL, and thereby which strategies suit it."""

import re

from command import invoke
from conftest import SUPPORT

STATE = r"^ *GIL +([a-z ]+)"


def advice(shown: str) -> dict[str, str]:
    """Return the judgement on each server, by server number."""
    return dict(re.findall(r"^(\d+)_\S+\s+(worth a run|not worth it|cannot work)", shown, re.MULTILINE))


def test_try_finds_out_whether_the_built_in_tasks_hold_the_gil() -> None:
    ended = invoke("try")
    assert (ended.returncode, ended.stderr) == (0, "")
    said = re.split(r"^(?=\w+, under Python)", ended.stdout, flags=re.MULTILINE)[1:]
    shown = {text.partition(",")[0]: text for text in said}
    state = {task: re.search(STATE, text, re.MULTILINE)[1] for task, text in shown.items()}
    assert state == {"primes": "held", "digest": "released or disabled", "sign_up": "hardly needed"}
    judged = {task: [advice(text)[number] == "worth a run" for number in "3456"] for task, text in shown.items()}
    assert judged == {
        "primes": [False, True, True, True],
        "digest": [True, True, False, False],
        "sign_up": [True, False, True, True],
    }


def test_a_task_that_holds_the_gil_in_c_delays_all_threads() -> None:
    ended = invoke("try", "awkward_tasks:holds_the_gil_in_c", env={"PYTHONPATH": str(SUPPORT), "COLUMNS": "200"})
    takes_ms, stalled_ms = (
        float(re.search(words, ended.stdout)[1]) for words in (r"takes +([\d.]+) ms", r"threads wait up to ([\d.]+) ms")
    )
    assert stalled_ms > 0.5 * takes_ms
    assert advice(ended.stdout)["3"] == "not worth it"
