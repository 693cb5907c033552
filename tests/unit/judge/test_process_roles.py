"""The roles of the processes of a server, from their place in the tree and their sockets."""

import pytest

from under_siege.judge.server_processes import roles
from under_siege.record.record import ProcessSamples, ServerProcess


def tree(*rows: str) -> list[ServerProcess]:
    """Return processes from rows such as `2 1 listens accepts 5`: its id, its parent, its flags and connections."""
    return [
        ServerProcess(
            pid=int(pid),
            parent=int(parent),
            is_listening=None if "unknown" in flags else "listens" in flags,
            accepts="accepts" in flags,
            began_s=0.0,
            samples=ProcessSamples([0.0], [0.0], [next((int(flag) for flag in flags if flag.isdigit()), -1)]),
        )
        for pid, parent, *flags in (row.split() for row in rows)
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["1 0 listens accepts"], "worker"),
        (["1 0 listens", "2 1 listens", "3 1 listens"], "parent worker worker"),  # gunicorn
        (["1 0 listens", "2 1", "3 1 listens accepts"], "parent helper worker"),  # uvicorn, and a resource tracker
        (["1 0", "2 1 listens", "3 2 listens", "4 2 listens"], "parent parent worker worker"),  # a shell started it
        (["1 0", "2 1 listens", "3 1 listens"], "parent worker worker"),  # each worker has a socket of its own
        (["1 0 listens accepts", "2 1 listens", "3 1 listens"], "worker helper helper"),  # a forked pool
        (["1 0 listens 25", "2 1 listens 0", "3 1 listens 0"], "worker helper helper"),  # the same, without epoll
        (["1 0 listens", "2 1 listens accepts", "3 2 listens", "4 2"], "parent worker helper helper"),
        (["1 0 listens", "2 1 listens", "3 1 unknown"], "parent worker unknown"),  # it has just started
        (["1 0 unknown", "2 1 unknown"], "unknown unknown"),  # another user's
        (["1 2 listens", "2 1 listens"], "unknown unknown"),  # ids in a circle, as in a forged file
    ],
)
def test_roles_follow_from_sockets_and_the_tree(rows: list[str], expected: str) -> None:
    found = roles(tree(*rows))
    if rows[0].startswith("1 2"):
        assert len(found) == 2
    else:
        assert " ".join(found) == expected
