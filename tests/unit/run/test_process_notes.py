"""Sentences about the processes of a server: each one has cases in which it appears, and cases in which it doesn't."""

from collections.abc import Callable, Sequence

import pytest
from simulated_record import TIME_S, bare_record, record_of, result_of

from under_siege.judge.ranking import summarize
from under_siege.record.record import CpuTimes, LimitUsage, Machine, ProcessSamples, Record, ServerProcess
from under_siege.record.requests import CHECK, CORRECT, LOAD, PING
from under_siege.run.view import view
from under_siege.show.notes import notes

PARENT, SPAWNED, MB = 10, "python -c from multiprocessing.spawn import spawn_main", 10**6


def process(
    pid: int = PARENT,
    cpus: float = 0.0,
    connections: int = -1,
    *,
    parent: int = PARENT,
    size: int = 20 * MB,
    began_s: float = -2.0,
    ended_s: float | None = None,
    command: str = "uvicorn --workers 2 app:app",
    **values: object,
) -> ServerProcess:
    """Return a process that listens and uses so many CPUs."""
    at_s = [number / 4 for number in range(17) if began_s <= number / 4 <= (TIME_S if ended_s is None else ended_s)]
    samples = ProcessSamples(at_s, [1 + cpus * at for at in at_s], [connections] * len(at_s))
    fixed = {"is_listening": True, "memory_start_bytes": size, "memory_end_bytes": size, "private_bytes": size}
    return ServerProcess(
        pid=pid,
        parent=1 if pid == PARENT else parent,
        command=command,
        began_s=began_s,
        ended_s=ended_s,
        samples=samples,
        **{**fixed, **values},
    )


def served(
    users: Sequence[int],
    *processes: ServerProcess,
    task_s: Sequence[float] = (0.02, 0.02),
    silent: Sequence[tuple[float, float]] = (),
    server: str = "server",
    round_: int = 1,
    **values: object,
) -> Record:
    """Return the record of workers that each serve so many users, one request at a time, except in spans of time."""
    record = record_of(server, round_, users=sum(users), has_task=False, **values)
    record.requests = record.requests.only(CHECK)
    first = 0
    for count, each_s in zip(users, task_s, strict=True):
        for number in range(int(TIME_S / each_s) if count else 0):
            ended_s = (number + 1) * each_s
            if not any(from_s < ended_s < to_s for from_s, to_s in silent):
                user = first + number % count
                sent_s = max(0.0, ended_s - count * each_s)
                record.requests.add(LOAD, user=user, sent_s=sent_s, ended_s=ended_s, outcome=CORRECT, status=200)
        first += count
    for due_s in (0.05 * number for number in range(80)):
        ended_s = next((to_s for from_s, to_s in silent if from_s <= due_s < to_s), due_s) + 0.002
        record.requests.add(PING, due_s=due_s, sent_s=due_s, ended_s=ended_s, outcome=CORRECT, status=200)
    record.processes = [process(), *processes]
    used_s = [sum(values) for values in zip(*(each.samples.cpu_s for each in processes[: len(users)]), strict=False)]
    record.samples.cpu_s[: len(used_s)] = used_s
    record.keep_alive = True
    record.cpu_times = CpuTimes([0.0], {0: [0.0], 1: [0.0]})
    return record


def sentences_on(*records: Record) -> list[str]:
    """Return the notes that begin with the name of the server."""
    found = notes(summarize(result_of([bare_record(), *records])))
    return [text for subject, text in found if subject.startswith("server") and "under load" not in text]


def crowded(users: Sequence[int], *cpus: float, **values: object) -> Record:
    workers = [process(20 + number, used, count) for number, (used, count) in enumerate(zip(cpus, users, strict=True))]
    return served(users, *workers, **values)


def moving() -> Record:
    """Return a record of users who have new connections in each burst, often to the same worker."""
    record = crowded([3, 22], 1.0, 1.0)
    for process_, counts in zip(record.processes[1:], ([3, 3, 22], [22, 22, 3]), strict=True):
        process_.samples.connections[:] = [counts[number % 3] for number in range(17)]
    return record


def imported(*, command: str = SPAWNED, size: int = 212 * MB, parent_cpus: float = 0.0) -> Record:
    record = served([4, 4], *(process(20 + number, 1.0, 4, size=214 * MB, command=command) for number in range(2)))
    record.processes[0] = process(size=size, cpus=parent_cpus)
    return record


def replaced(*ended_s: float, began_s: Sequence[float] = (1.5, 1.6), **values: object) -> Record:
    old = [process(20 + number, 1.0, 4, ended_s=at_s) for number, at_s in enumerate(ended_s)]
    new = [process(30 + number, 1.0, 4, began_s=at_s) for number, at_s in enumerate(began_s)]
    return served([4, 4], *old, *new, **{"silent": [(1.4, 3.0)], "ready_s": 1.5, **values})


def several(count: int, command: str = "gunicorn app:app", kind: str = "", **axes: object) -> Record:
    workers = [process(20 + number, 0.5, 4, command=command) for number in range(count)]
    record = served([4, 4], *workers, parameters=axes, kind=kind)
    record.processes[0].command = command
    return record


def in_two_rounds(crowded_s: float, even_s: float, other_work: float = 0.0) -> list[Record]:
    """Return a round with a crowded worker and one without; all users of a round wait as long for each response."""
    pairs = [([3, 22], crowded_s), ([12, 13], even_s)]
    records = [
        crowded(users, 0.1, 0.1, task_s=[each_s / count for count in users], round_=number)
        for number, (users, each_s) in enumerate(pairs, 1)
    ]
    for record in records:
        record.machine = Machine(total_s=8.0, busy_s=1.0 + 8.0 * other_work, steal_s=0.0)
    return records


LIMITED = LimitUsage(cpus=1.0)
APPEARS: dict[str, Callable[[], list[Record]]] = {
    "crowded": lambda: [crowded([3, 22], 1.0, 1.0)],
    "crowded in one of two rounds": lambda: [
        crowded([12, 13], 1.0, 1.0),
        crowded([3, 22], 1.0, 1.0, task_s=(0.04, 0.04), round_=2),
    ],
    "crowded, so only the rates of rounds differ": lambda: in_two_rounds(0.2, 0.1),
    "crowded, with three workers": lambda: [crowded([0, 1, 9], 0.0, 1.0, 1.0, task_s=(0.02, 0.02, 0.02))],
    "crowded, with six workers": lambda: [crowded([1, 1, 1, 1, 2, 9], *[0.5] * 6, task_s=[0.02] * 6)],
    "one worker has all users": lambda: [crowded([0, 5], 0.02, 1.0, task_s=(0.02, 0.02))],
    "the parent imported the application": lambda: [imported()],
    "replaced together": lambda: [replaced(1.3, 1.5)],
    "replaced, but one not in time": lambda: [replaced(1.3, 1.5, began_s=[1.6])],
    "a single worker was replaced": lambda: [replaced(1.4, began_s=[1.5])],
    "more workers than asked for": lambda: [several(8, workers=2)],
    "fewer workers than asked for": lambda: [several(2, workers=8)],
    "a number that no option sets": lambda: [several(8)],
}
MISSING: dict[str, Callable[[], list[Record]]] = {
    "users are spread evenly": lambda: [crowded([12, 13], 1.0, 1.0)],
    "the workers mostly wait": lambda: [crowded([3, 22], 0.1, 0.1, task_s=(0.03, 0.03 * 3 / 22))],
    "the crowded round was faster": lambda: in_two_rounds(0.1, 0.2),
    "other programs made rates vary": lambda: in_two_rounds(0.2, 0.1, other_work=0.6),
    "all users at one worker that mostly waits": lambda: [crowded([0, 5], 0.0, 0.1, task_s=(0.02, 0.02))],
    "all workers have one CPU": lambda: [crowded([0, 5], 0.02, 1.0, task_s=(0.02, 0.02), limits=LIMITED)],
    "connections move between workers": lambda: [moving()],
    "connections were not kept": lambda: [
        served([3, 22], process(20, 1.0), process(21, 1.0)),
    ],
    "a pool has the connections of its parent": lambda: [
        served([3, 22], process(cpus=0.1, connections=25), process(20, 1.0, 0), process(21, 0.1, 0))
    ],
    "the parent shares its memory": lambda: [imported(command="uvicorn --workers 2 app:app")],
    "the parent is small": lambda: [imported(size=25 * MB)],
    "the parent answers requests": lambda: [imported(parent_cpus=1.0)],
    "another worker answers": lambda: [replaced(1.5, began_s=[1.6, -2.0])],
    "replaced without a silence": lambda: [replaced(1.3, 1.5, silent=[])],
    "often silent for as long": lambda: [replaced(1.3, 1.5, silent=[(0.2, 0.8), (1.4, 1.9), (3.0, 3.6)])],
    "as many workers as asked for": lambda: [several(2, workers=2)],
    "the axis is the size of a pool": lambda: [several(2, workers=8, kind="processes")],
    "the command sets the number": lambda: [several(8, "gunicorn -w 8 app:app")],
}


@pytest.mark.parametrize("what", APPEARS)
def test_a_sentence_says_what_the_processes_explain(what: str, golden: Callable[..., None]) -> None:
    found = sentences_on(*APPEARS[what]())
    assert found
    golden(*found)


@pytest.mark.parametrize("what", MISSING)
def test_there_is_no_sentence_if(what: str) -> None:
    assert sentences_on(*MISSING[what]()) == []


def remarks_on(*records: Record) -> list[str]:
    (conclusion,) = view(summarize(result_of(list(records)))).headline
    return list(conclusion.remarks)


def test_the_conclusion_says_it_too() -> None:
    remarks = remarks_on(crowded([3, 22], 1.0, 1.0, has_ceiling=False))
    assert any(remark.startswith("3 of 25 users shared") for remark in remarks)


def test_the_conclusion_names_the_case_if_there_are_several() -> None:
    servers = [("one", [3, 22]), ("two", [12, 13]), ("three", [4, 21]), ("four", [2, 23])]
    remarks = remarks_on(*(crowded(users, 1.0, 1.0, has_ceiling=False, server=server) for server, users in servers))
    about = [remark for remark in remarks if "users shared" in remark]
    assert len(about) == 2
    assert all(remark.startswith(("With one, ", "With three, ", "With four, ")) for remark in about)
    assert "1 more note on processes: see below the table." in remarks
