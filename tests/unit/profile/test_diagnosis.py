"""Diagnoses of profiles with known stacks."""

import pytest
from simulated_profile import LOOP, MAIN, RENDER, ROUTE, SELECT, THREAD, profile_of

from under_siege.profile import view
from under_siege.profile.diagnosis import Diagnosis
from under_siege.profile.sampler import Frame
from under_siege.record.record import Profile, append_row

IDLE = (1, MAIN, [LOOP, SELECT], (90, 5, 2))
REST = (1, MAIN, [LOOP, SELECT], (40, 0, 0))
HANDLE = Frame("Handle._run", "asyncio/events.py", 80, "library", "")
AWAITS = Frame("report", "shop/main.py", 12, "await", 'response = await http.request("GET", url)')
REQUEST = Frame("ClientSession._request", "aiohttp/client.py", 708, "library", "")
JOIN = Frame("Thread.join", "threading.py", 1149, "library", "")
GET = Frame("get", "requests/api.py", 73, "library", "")
READ, SEND = (Frame(name, "http/client.py", line, "library", "") for name, line in (("read", 9), ("send", 99)))
HOLDER = Frame("call", "shop/printer.py", 9, "app", "time.sleep(1)")
WAITER = Frame("report", "shop/main.py", 15, "app", "with printer_lock:")
QUERY = Frame("query", "shop/db.py", 4, "app", "time.sleep(1)")
TAKE = Frame("Queue.get", "sqlalchemy/util/queue.py", 4, "library", "")
WAIT = Frame("Condition.wait", "threading.py", 327, "library", "")
BACKGROUND = Frame("BackgroundTask.__call__", "starlette/background.py", 30, "library", "")
MAIL = Frame("send_mail", "shop/mail.py", 7, "async", "time.sleep(1)")
TEMPLATE = [
    Frame("Template.render", "jinja2/environment.py", 1293, "library", ""),
    Frame("root", "jinja2/report.html", 0, "library", ""),
]


def blocked(samples: int, answers: int = 50, **changes: object) -> Profile:
    idle = (1, MAIN, [LOOP, SELECT], (100 - samples, 0, 0))
    profile = profile_of((1, MAIN, [LOOP, ROUTE, RENDER], (samples, samples, samples)), idle, answers=answers)
    return changed(profile, **changes)


def changed(profile: Profile, **changes: object) -> Profile:
    for name, value in changes.items():
        setattr(profile, name, value)
    return profile


def on_loop(*frames: Frame, counts: tuple[int, int, int], answers: int = 50) -> Profile:
    return profile_of((1, MAIN, [LOOP, *frames], counts), answers=answers)


def in_threads(count: int, *stacks: tuple[list[Frame], tuple[int, int, int]], users: int = 25) -> Profile:
    """Return a profile of an idle event loop and this many threads, each of which has these stacks."""
    numbers = range(count)
    threads = [(1, f"pool_{number}", [THREAD, *frames], counts) for frames, counts in stacks for number in numbers]
    return profile_of(IDLE, *threads, users=users)


def beside(main: Frame) -> Profile:
    """Return a profile of a thread that computes beside a main thread that does this."""
    profile = profile_of((1, MAIN, [main], (100, 0, 0)), (1, "pool", [THREAD, RENDER], (95, 60, 60)))
    return changed(profile, waits={1: [100, 70]})


def of_two_processes(cpu: int, **changes: object) -> Profile:
    return changed(
        profile_of(*((pid, "pool", [THREAD, RENDER], (c, c, c)) for pid, c in ((1, 99), (2, cpu)))), **changes
    )


SERVICE = (([RENDER, GET, READ], (70, 1, 0)), ([RENDER, GET, SEND], (25, 12, 10)))
PROFILES = {
    "a function blocks the event loop": blocked(94),
    "rare work is no fault": blocked(4),
    "short work is no fault": blocked(60, answers=5000),
    "the diagnosis is uncertain beside other programs": blocked(94, other_work=0.6),
    "a few other programs do not matter": blocked(94, other_work=0.1),
    "too few samples to classify a function": changed(
        profile_of((1, MAIN, [LOOP, ROUTE, RENDER], (30, 1, 1)), (1, MAIN, [LOOP, SELECT], (70, 0, 0))),
        samples={"wall": 100, "cpu": 20, "gil": 20},
    ),
    "threads compute with the GIL": in_threads(4, ([RENDER], (95, 25, 24))),
    # Each thread waits for a CPU most of the time, even the thread that could take the GIL next.
    "threads compete for the GIL on busy CPUs": in_threads(8, ([RENDER], (31, 18, 4)), ([], (69, 0, 0))),
    "threads compute without the GIL": in_threads(8, ([RENDER], (50, 40, 1))),
    "an event loop in the main thread waits for the GIL": beside(SELECT),
    "a main thread without an event loop does not wait for the GIL": beside(JOIN),
    "processes do not share a GIL": profile_of(IDLE, *((p, "pool", [THREAD, RENDER], (95, 95, 95)) for p in (2, 3))),
    "threads wait for a lock": in_threads(4, ([WAITER], (75, 0, 0)), ([WAITER, HOLDER], (25, 0, 0))),
    "more users than threads": in_threads(8, ([QUERY], (99, 0, 0))),
    "as many users as threads": in_threads(8, ([QUERY], (99, 0, 0)), users=8),
    "waiting for a queue is no lock": in_threads(8, ([RENDER, TAKE, WAIT], (95, 1, 0))),
    "threads that wait for a service need no processes": in_threads(8, *SERVICE),
    "not even if they delay the event loop": changed(in_threads(8, *SERVICE), waits={1: [100, 70]}),
    "a background task blocks the event loop": on_loop(BACKGROUND, MAIL, counts=(90, 0, 0)),
    "an idle process among busy ones": of_two_processes(5),
    "an awaited library computes": profile_of((1, MAIN, [LOOP, AWAITS, REQUEST], (60, 60, 60)), REST),
    "an awaited library waits without await": profile_of((1, MAIN, [LOOP, AWAITS, REQUEST], (60, 1, 1)), REST),
    "a template holds the GIL": on_loop(ROUTE, *TEMPLATE, counts=(90, 88, 85)),
    "a template holds the GIL on busy CPUs": on_loop(ROUTE, *TEMPLATE, counts=(90, 88, 5)),
    "advice for a wait": on_loop(ROUTE, RENDER, counts=(90, 1, 1)),
    "advice for a computation": on_loop(ROUTE, RENDER, counts=(90, 90, 90)),
    "no advice if the GIL is held only partly": on_loop(ROUTE, RENDER, counts=(90, 90, 30)),
    "no advice for 4.5 ms per request": on_loop(ROUTE, RENDER, counts=(90, 90, 90), answers=1000),
    "no advice for greenlets": on_loop(ROUTE._replace(kind="app"), RENDER, counts=(90, 1, 1)),
}


@pytest.mark.parametrize("name", PROFILES)
def test_each_profile_gets_its_diagnosis(name: str, golden) -> None:
    golden(*view.diagnosed(Diagnosis(PROFILES[name])))


@pytest.mark.parametrize(
    ("counts", "source", "how"),
    [
        ((90, 90, 88), "total += price", "CPU-bound, holds the GIL"),
        ((90, 88, 5), "key = hashlib.scrypt(password)", "CPU-bound, without the GIL (hashlib.scrypt)"),
        ((90, 1, 1), "time.sleep(0.1)", "blocking I/O (time.sleep)"),
        ((90, 1, 0), "with lock:", "waits for a lock"),
    ],
)
def test_a_blocking_function_is_classified_by_cpu_and_gil_samples(
    counts: tuple[int, int, int], source: str, how: str
) -> None:
    (spot,) = Diagnosis(on_loop(ROUTE, Frame("work", "shop/work.py", 3, "app", source), counts=counts)).loop_hotspots
    assert spot.how == how


def test_a_library_that_logs_occasionally_is_not_reported_as_logging() -> None:
    log = Frame("Logger.debug", "logging/__init__.py", 1477, "library", "")
    stacks = [(1, MAIN, [LOOP, ROUTE, GET, last], (samples, 1, 1)) for last, samples in ((READ, 85), (log, 5))]
    (spot,) = Diagnosis(profile_of(*stacks)).loop_hotspots
    assert spot.how == "blocking I/O (requests)"


def test_a_line_that_waits_for_a_lock_is_listed_separately_from_lines_that_compute() -> None:
    computes = WAITER._replace(line=16, source="total += price")
    spots = Diagnosis(in_threads(4, ([WAITER], (75, 0, 0)), ([computes], (25, 25, 25)))).thread_hotspots
    assert [(spot.frame.line, spot.how) for spot in spots] == [
        (15, "waits for a lock"),
        (16, "CPU-bound, holds the GIL"),
    ]


def test_only_event_loops_of_listening_processes_are_assumed_to_serve_requests() -> None:
    control = (9, "Thread-1 (_run_loop)", [THREAD, LOOP, SELECT], (100, 0, 0))  # an idle loop of a master process
    profile = profile_of(*((pid, MAIN, [LOOP, ROUTE, RENDER], (99, 99, 99)) for pid in (1, 2)), control)
    assert Diagnosis(profile).threads.loop_processes == [1, 2]
    assert Diagnosis(changed(profile, listeners=[1])).threads.loop_processes == [1]


def test_only_idle_processes_that_accept_connections_are_counted() -> None:
    profiles = (of_two_processes(5), of_two_processes(5, listeners=[1]), of_two_processes(99))
    assert [Diagnosis(profile).idle_processes() for profile in profiles] == [(1, 2), (0, 1), (0, 2)]


def test_python_code_with_few_samples_of_the_gil_is_not_reported_as_free_of_it() -> None:
    frames = [Frame("work", "shop/work.py", line, "app", "") for line in range(10)]
    (spot,) = Diagnosis(profile_of(*((1, MAIN, [LOOP, ROUTE, frame], (9, 9, 1)) for frame in frames))).loop_hotspots
    assert spot.how == "CPU-bound"


STREAM = Frame("StreamingResponse.stream_response", "starlette/responses.py", 255, "library", "")
HOP = Frame("iterate_in_threadpool", "starlette/concurrency.py", 57, "library", "")
SERIALIZES = Frame("jsonable_encoder", "fastapi/encoders.py", 333, "library", "")
DEFINITION = Frame("export", "shop/main.py", 20, "async", "async def export():")
RETURN = Frame("export", "shop/main.py", 24, "async", "return StreamingResponse(file)")


@pytest.mark.parametrize("endpoint", [[], [DEFINITION], [DEFINITION, RETURN], [DEFINITION, RETURN, RETURN]], ids=len)
@pytest.mark.parametrize("frames", [[STREAM, HOP], [SERIALIZES]], ids=["hops", "serializes"])
def test_work_of_the_framework_is_traced_to_the_line_that_causes_it(
    frames: list[Frame], endpoint: list[Frame], golden
) -> None:
    own = (1, MAIN, [LOOP, HANDLE, ROUTE, RENDER], (14, 14, 14))
    profile = profile_of((1, MAIN, [LOOP, HANDLE, *frames], (43, 43, 43)), own, (1, MAIN, [LOOP, SELECT], (43, 0, 0)))
    for frame in endpoint:
        append_row(profile.endpoint, *frame)
    golden(*view.diagnosed(Diagnosis(profile)))
