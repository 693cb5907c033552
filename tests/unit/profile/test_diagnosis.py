"""Diagnoses of profiles with known stacks."""

import pytest
from simulated_profile import LOOP, MAIN, RENDER, ROUTE, SELECT, THREAD, profile_of

from under_siege.profile import view
from under_siege.profile.diagnosis import Diagnosis
from under_siege.profile.sampler import Frame
from under_siege.record.record import Profile, append_row

IDLE = (1, MAIN, [LOOP, SELECT], (90, 5, 2))


def diagnosed(profile: Profile) -> list[str]:
    return view.diagnosed(Diagnosis(profile))


def finding(profile: Profile) -> str:
    return diagnosed(profile)[0]


def blocked(samples: int, answers: int = 50) -> Profile:
    idle = (1, MAIN, [LOOP, SELECT], (100 - samples, 0, 0))
    return profile_of((1, MAIN, [LOOP, ROUTE, RENDER], (samples, samples, samples)), idle, answers=answers)


def test_the_diagnosis_names_the_function_that_blocks_the_event_loop() -> None:
    headline, place, caller, loop, advice = diagnosed(blocked(94))
    assert headline.startswith("The event loop was blocked 94 % ± ")
    assert place == " 94 %  shop/report.py:23  render  CPU-bound, holds the GIL  94 ms per request"
    assert caller == "Called from async def report (shop/main.py:12)."
    assert loop == "event loop: your code 94 %, framework 0 %, waiting for the GIL 0 %, idle 6 %"
    assert advice.startswith("Move it to a process pool")


@pytest.mark.parametrize(("samples", "answers"), [(4, 50), (60, 5000)], ids=["rare", "short"])
def test_rare_or_short_work_on_the_event_loop_is_not_reported_as_a_fault(samples: int, answers: int) -> None:
    assert finding(blocked(samples, answers)).startswith("Nothing blocks the event loop")


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
    frame = Frame("work", "shop/work.py", 3, "app", source)
    (spot,) = Diagnosis(profile_of((1, MAIN, [LOOP, ROUTE, frame], counts))).loop_hotspots
    assert spot.how == how


def test_a_diagnosis_is_reported_as_uncertain_if_other_processes_use_the_cpus() -> None:
    profile = blocked(94)
    profile.other_work = 0.6
    headline, *rest = diagnosed(profile)
    assert headline.startswith("Uncertain, because other processes used 60 % of the CPUs: the event loop was blocked")
    profile.other_work = 0.1
    assert diagnosed(profile)[1:] == rest


def test_a_library_that_logs_occasionally_is_not_reported_as_logging() -> None:
    get, read = Frame("get", "requests/api.py", 73, "library", ""), Frame("read", "socket.py", 9, "library", "")
    log = Frame("Logger.debug", "logging/__init__.py", 1477, "library", "")
    stacks = [(1, MAIN, [LOOP, ROUTE, get, last], (samples, 1, 1)) for last, samples in ((read, 85), (log, 5))]
    (spot,) = Diagnosis(profile_of(*stacks)).loop_hotspots
    assert spot.how == "blocking I/O (requests)"


def test_threads_that_compute_with_the_gil_are_reported_as_waiting_for_it() -> None:
    threads = [(1, f"pool_{number}", [THREAD, RENDER], (95, 25, 24)) for number in range(4)]
    assert finding(profile_of(IDLE, *threads)).startswith("4 threads, in turn, held the GIL 96 % of the time")


def test_threads_that_compete_for_the_gil_are_detected_even_if_the_cpus_are_busy() -> None:
    # Each thread waits for a CPU most of the time, even the thread that could take the GIL next.
    threads = [(1, f"pool_{number}", [THREAD, RENDER], (31, 18, 4)) for number in range(8)]
    threads += [(1, f"pool_{number}", [THREAD], (69, 0, 0)) for number in range(8)]
    headline, place, *_ = diagnosed(profile_of(IDLE, *threads))
    assert headline.startswith("8 threads, in turn, held the GIL 32 % of the time")
    assert "CPU-bound, holds the GIL" in place


def test_threads_that_compute_without_the_gil_are_not_reported_as_waiting_for_it() -> None:
    threads = [(1, f"pool_{number}", [THREAD, RENDER], (50, 40, 1)) for number in range(8)]
    headline, place, *_ = diagnosed(profile_of(IDLE, *threads))
    assert headline.startswith("Nothing blocks the event loop")
    assert "CPU-bound, without the GIL" in place


@pytest.mark.parametrize(
    ("main", "is_contended"),
    [(SELECT, True), (Frame("Thread.join", "threading.py", 1149, "library", ""), False)],
    ids=["selecting", "joining"],
)
def test_waits_of_the_main_thread_indicate_gil_contention_only_if_it_runs_an_event_loop(
    main: Frame, is_contended: bool
) -> None:
    profile = profile_of((1, MAIN, [main], (100, 0, 0)), (1, "pool", [THREAD, RENDER], (95, 60, 60)))
    profile.waits = {1: [100, 70]}
    assert finding(profile).startswith("One thread held the GIL 60 % of the time") is is_contended


def test_threads_of_different_processes_are_not_reported_as_sharing_a_gil() -> None:
    workers = [(pid, "pool", [THREAD, RENDER], (95, 95, 95)) for pid in (2, 3)]
    assert finding(profile_of(IDLE, *workers)).startswith("Nothing blocks the event loop")


def test_threads_that_wait_for_a_lock_are_detected() -> None:
    holder = Frame("call", "shop/printer.py", 9, "app", "time.sleep(1)")
    waiter = Frame("report", "shop/main.py", 15, "app", "with printer_lock:")
    stacks = [(1, f"pool_{number}", [THREAD, waiter], (75, 0, 0)) for number in range(4)]
    stacks += [(1, f"pool_{number}", [THREAD, waiter, holder], (25, 0, 0)) for number in range(4)]
    headline, first, *_ = diagnosed(profile_of(IDLE, *stacks))
    assert headline.startswith("4 threads waited for a lock 75 % of the time")
    assert "shop/main.py:15  report  waits for a lock" in first


def test_a_pool_is_reported_as_busy_only_if_there_are_more_users_than_threads() -> None:
    query = Frame("query", "shop/db.py", 4, "app", "time.sleep(1)")
    threads = [(1, f"pool_{number}", [THREAD, query], (99, 0, 0)) for number in range(8)]
    assert finding(profile_of(IDLE, *threads, users=25)).startswith("All 8 threads of the pool were busy 100 %")
    assert finding(profile_of(IDLE, *threads, users=8)).startswith("Nothing blocks the event loop")


def test_an_idle_event_loop_in_a_thread_of_the_master_process_is_ignored() -> None:
    control = (9, "Thread-1 (_run_loop)", [THREAD, LOOP, SELECT], (100, 0, 0))
    assert Diagnosis(profile_of((1, MAIN, [LOOP, ROUTE, RENDER], (99, 99, 99)), control)).loop_processes == [1]


def test_the_advice_mentions_a_background_task_that_blocks_the_event_loop() -> None:
    task = Frame("BackgroundTask.__call__", "starlette/background.py", 30, "library", "")
    send = Frame("send_mail", "shop/mail.py", 7, "async", "time.sleep(1)")
    assert "background task" in diagnosed(profile_of((1, MAIN, [LOOP, task, send], (90, 0, 0))))[-1]


def test_functions_with_few_samples_are_not_classified() -> None:
    profile = blocked(30)
    profile.samples |= {"cpu": 20, "gil": 20}
    profile.stacks.cpu[0] = profile.stacks.gil[0] = 1
    _, place, *_, advice = diagnosed(profile)
    assert "render  too few samples to tell" in place
    assert "--time 60s" in advice


def test_a_line_that_waits_for_a_lock_is_listed_separately_from_lines_that_compute() -> None:
    at_lock = Frame("report", "shop/main.py", 15, "app", "with lock:")
    computes = Frame("report", "shop/main.py", 16, "app", "total += price")
    threads = [(1, f"pool_{number}", [THREAD, at_lock], (75, 0, 0)) for number in range(4)]
    threads += [(1, f"pool_{number}", [THREAD, computes], (25, 25, 25)) for number in range(4)]
    spots = Diagnosis(profile_of(IDLE, *threads)).thread_hotspots
    assert [(spot.frame.line, spot.how) for spot in spots] == [
        (15, "waits for a lock"),
        (16, "CPU-bound, holds the GIL"),
    ]


def test_only_event_loops_of_listening_processes_are_assumed_to_serve_requests() -> None:
    loops = [(pid, MAIN, [LOOP, ROUTE, RENDER], (99, 99, 99)) for pid in (1, 2)]
    profile = profile_of(*loops)
    assert Diagnosis(profile).loop_processes == [1, 2]
    profile.listeners = [1]
    assert Diagnosis(profile).loop_processes == [1]


def test_idle_processes_among_busy_ones_are_reported_if_they_accept_connections() -> None:
    busy, idle = ((pid, "pool", [THREAD, RENDER], (cpu, cpu, cpu)) for pid, cpu in ((1, 99), (2, 5)))
    profile = profile_of(busy, idle)
    assert finding(profile).startswith("Of 2 processes, 1 stayed idle while others were busy")
    profile.listeners = [1]
    assert Diagnosis(profile).idle_processes() == (0, 1)
    assert Diagnosis(profile_of(busy, (2, *busy[1:]))).idle_processes() == (0, 2)


HANDLE = Frame("Handle._run", "asyncio/events.py", 80, "library", "")
AWAITS = Frame("report", "shop/main.py", 12, "await", 'response = await http.request("GET", url)')
REST = (1, MAIN, [LOOP, SELECT], (40, 0, 0))
REQUEST = Frame("ClientSession._request", "aiohttp/client.py", 708, "library", "")


def test_cpu_time_of_an_awaited_library_is_not_reported_as_blocking() -> None:
    headline, place, _, *advice = diagnosed(profile_of((1, MAIN, [LOOP, AWAITS, REQUEST], (60, 60, 60)), REST))
    assert headline.startswith("Awaited calls used 60 % ± ")
    assert "shop/main.py:12  report  awaited (aiohttp)" in place
    assert advice == []


def test_an_awaited_library_that_waits_without_await_is_reported_without_advice() -> None:
    headline, place, _, *advice = diagnosed(profile_of((1, MAIN, [LOOP, AWAITS, REQUEST], (60, 1, 1)), REST))
    assert headline.startswith("The event loop was blocked 60 % ± ")
    assert "blocking I/O (aiohttp)" in place
    assert advice == []


@pytest.mark.parametrize("counts", [(90, 88, 85), (90, 88, 5)], ids=["single thread", "busy CPUs"])
def test_jinja_templates_are_reported_as_holding_the_gil(counts: tuple[int, int, int]) -> None:
    render = Frame("Template.render", "jinja2/environment.py", 1293, "library", "")
    template = Frame("root", "jinja2/report.html", 0, "library", "")
    _, place, _, *advice = diagnosed(profile_of((1, MAIN, [LOOP, ROUTE, render, template], counts)))
    assert "report  CPU-bound, holds the GIL (Jinja)" in place
    assert advice == []


STREAM = Frame("StreamingResponse.stream_response", "starlette/responses.py", 255, "library", "")
HOP = Frame("iterate_in_threadpool", "starlette/concurrency.py", 57, "library", "")
SERIALIZES = Frame("jsonable_encoder", "fastapi/encoders.py", 333, "library", "")
DEFINITION = Frame("export", "shop/main.py", 20, "async", "async def export():")
RETURN = Frame("export", "shop/main.py", 24, "async", "return StreamingResponse(file)")


@pytest.mark.parametrize(
    ("frames", "endpoint", "finding_", "cause"),
    [
        ([STREAM, HOP], [DEFINITION, RETURN], "Thread hops for each chunk used 43 %", "shop/main.py:24"),
        ([STREAM, HOP], [DEFINITION], "Thread hops for each chunk used 43 %", "shop/main.py:20"),
        ([STREAM, HOP], [], "Thread hops for each chunk used 43 %", ""),
        ([SERIALIZES], [DEFINITION, RETURN], "The event loop was blocked 57 %", "shop/main.py:24"),
        ([SERIALIZES], [DEFINITION, RETURN, RETURN], "The event loop was blocked 57 %", "shop/main.py:20"),
    ],
)
def test_work_of_the_framework_is_traced_to_the_line_that_causes_it(
    frames: list[Frame], endpoint: list[Frame], finding_: str, cause: str
) -> None:
    own = (1, MAIN, [LOOP, HANDLE, ROUTE, RENDER], (14, 14, 14))
    profile = profile_of((1, MAIN, [LOOP, HANDLE, *frames], (43, 43, 43)), own, (1, MAIN, [LOOP, SELECT], (43, 0, 0)))
    for frame in endpoint:
        append_row(profile.endpoint, *frame)
    headline, first, second, *rest = diagnosed(profile)
    assert headline.startswith(finding_)
    assert frames[0].place in first
    assert RENDER.place in second
    causes = [line for line in rest if line.startswith("Caused by async def export")]
    assert [cause in line for line in causes] == [True] * bool(cause)
    assert not any(line.startswith("Move") for line in rest)


def test_threads_that_wait_for_a_service_are_not_told_to_use_processes() -> None:
    get = Frame("get", "requests/api.py", 73, "library", "")
    read, send = (Frame(name, "http/client.py", line, "library", "") for name, line in (("read", 9), ("send", 99)))
    threads = [(1, f"pool_{number}", [THREAD, RENDER, get, read], (70, 1, 0)) for number in range(8)]
    threads += [(1, f"pool_{number}", [THREAD, RENDER, get, send], (25, 12, 10)) for number in range(8)]
    profile = profile_of(IDLE, *threads)
    assert "blocking I/O (requests)" in diagnosed(profile)[1]
    assert not any("processes" in line for line in diagnosed(profile))
    profile.waits = {1: [100, 70]}
    headline, place, *_, last = diagnosed(profile)
    assert headline.startswith("8 threads, in turn, held the GIL 80 %")
    assert "blocking I/O (requests)" in place
    assert last.startswith("event loop: ")


def test_python_code_with_few_samples_of_the_gil_is_not_reported_as_free_of_it() -> None:
    frames = [Frame("work", "shop/work.py", line, "app", "") for line in range(10)]
    (spot,) = Diagnosis(profile_of(*((1, MAIN, [LOOP, ROUTE, frame], (9, 9, 1)) for frame in frames))).loop_hotspots
    assert spot.how == "CPU-bound"


def test_a_thread_that_waits_for_a_queue_is_not_reported_as_waiting_for_a_lock() -> None:
    get = Frame("Queue.get", "sqlalchemy/util/queue.py", 4, "library", "")
    wait = Frame("Condition.wait", "threading.py", 327, "library", "")
    threads = [(1, f"pool_{number}", [THREAD, RENDER, get, wait], (95, 1, 0)) for number in range(8)]
    headline, place, *_ = diagnosed(profile_of(IDLE, *threads))
    assert headline.startswith("Nothing blocks")
    assert "waits for another thread (sqlalchemy)" in place


@pytest.mark.parametrize(
    ("caller", "counts", "answers", "advice"),
    [
        (ROUTE, (90, 1, 1), 50, "Use an async library, or await asyncio.to_thread"),
        (ROUTE, (90, 90, 90), 50, "Move it to a process pool"),
        (ROUTE, (90, 90, 30), 50, ""),  # for example a query to SQLite, which releases the GIL
        (ROUTE, (90, 90, 90), 1000, ""),  # 4.5 ms per request
        (ROUTE._replace(kind="app"), (90, 1, 1), 50, ""),  # for example gevent, which has no `await`
    ],
    ids=["waits", "computes", "partly with the GIL", "short", "no coroutine"],
)
def test_advice_is_given_only_if_it_certainly_helps(
    caller: Frame, counts: tuple[int, int, int], answers: int, advice: str
) -> None:
    last = diagnosed(profile_of((1, MAIN, [LOOP, caller, RENDER], counts), answers=answers))[-1]
    assert last.startswith(advice or "event loop: ")
