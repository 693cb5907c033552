"""Prepare a run: create environments, run the `prepare` commands, and find the expected responses."""

import ast
import asyncio
import contextlib
import itertools
import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import aiohttp

from common.errors import BadInputError
from under_siege import formatting
from under_siege.formatting import legible
from under_siege.host.commands import run_command
from under_siege.host.environments import environment_beside, environment_with, with_packages
from under_siege.host.interpreter import OLDEST_USER_PYTHON, Interpreter, interpreter, packages_of
from under_siege.host.services import Services
from under_siege.load.body_rule import ANY, BYTES, FIELDS, JSON, MOST_PATHS, PATTERN, SAME, BodyRule, as_json
from under_siege.load.fresh_values import differs_by_user, how_to_vary, names_in_request
from under_siege.load.http_client import HttpResponse, client
from under_siege.load.request import CHUNKS, MixedRequest, Stream
from under_siege.load.streams import (
    ERROR_STATUS,
    EVENT_STREAM,
    EventParser,
    StreamResponse,
    counts,
    places_of_text,
    quoted_error,
    reported_error,
    reports_error,
)
from under_siege.measure.plan import EnvironmentKey, Plan, ProgressListener
from under_siege.measure.server import Server, running
from under_siege.measure.server_command import Start, missing_library, prepare_command, suite_command
from under_siege.measure.server_readiness import remedy_for, until_ready
from under_siege.paths import ROOT
from under_siege.record.case import REVISION, WORKERS, Case
from under_siege.record.record import CaseFailedError
from under_siege.record.result import SkippedServer
from under_siege.secrets import masked
from under_siege.suite.expected_response import (
    Expectation,
    Expectations,
    Files,
    KeyOrder,
    Mix,
    Work,
    counters_in,
    try_task,
)
from under_siege.suite.server_files import SERVERS

REFERENCE_REQUESTS = 3  # number of requests for each expected response; the shortest duration counts
LONGEST_REFERENCE_S, GRACE_S = 60.0, 1.0  # timeout of a reference, and how much later an endless stream is given up
OF_REQUESTS = ("setup_failed", "succeeds_once")  # failures that depend only on the requests, whatever the servers
# Failures that every server of an application would have:
HOPELESS = ("error_answer", "refused_request", "no_stream", "endless_stream", *OF_REQUESTS)
BUSY = (429, 503)  # statuses of a server that refuses a request only now
CACHED_S, CACHED = 0.1, 3.0  # a warning is shown if the first response took this much longer: in seconds, and a factor
CLOCK_S = 1.1  # after this time, a clock that counts seconds has another value
SLOWEST_COUNTED_S = 0.25  # slower responses may contain the time
MOST_QUOTED = 80  # number of characters of an event that an error quotes
MOST_NAMED = 5  # maximum number of files to name in an error
_OTHER_AGENT = "Under-Siege aiohttp"
UNKNOWN_S = 0.1  # assumed response time if none is known: no server answers, or the load requests files


def needed_by(servers: Iterable[Path | None], tasks: Iterable[str]) -> set[str] | None:
    """Return the import names of the packages that are needed, or None if a user's script or task may need others."""
    paths = list(servers)
    if any(path is None or path.parent != SERVERS for path in paths) or any(":" in task for task in tasks):
        return None
    packages = set[str]()
    left: list[tuple[Path, frozenset[str] | None]] = [(path, None) for path in paths if path]
    seen = set(left)
    while left:
        for module, names in _imported(*left.pop()):
            package = module.partition(".")[0]
            used = (ROOT / module.replace(".", "/")).with_suffix(".py"), names
            if package != "common":
                packages.add(package)
            elif used not in seen and used[0].exists():
                seen.add(used)
                left.append(used)
    return packages


def _imported(path: Path, names: frozenset[str] | None) -> Iterator[tuple[str, frozenset[str] | None]]:
    """Yield the modules that a file imports, each with the names that it imports from them (None: all).

    Ignore imports in functions of the file that are not among `names`, because nobody calls these functions.
    """
    body = ast.parse(path.read_text(encoding="utf-8")).body
    used = [node for node in body if not isinstance(node, ast.FunctionDef) or names is None or node.name in names]
    for node in itertools.chain.from_iterable(map(ast.walk, used)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, frozenset(alias.name for alias in node.names)
            yield from ((f"{node.module}.{alias.name}", None) for alias in node.names)


async def prepared(plan: Plan, watcher: ProgressListener) -> Plan:
    """Run each prepare command once; return the plan with the reason for each failure, by case."""
    everything = (*plan.references, *plan.cases, *plan.ceilings)
    for folder in (plan.suite.revisions.values() or [plan.suite.folder]) if plan.suite.prepare else ():
        if why := await _why_not_prepared(prepare_command(plan, folder), watcher):
            return replace(plan, unprepared=dict.fromkeys(everything, why))
    reasons: dict[tuple[str, ...], str] = {}
    unprepared = {}
    for case in everything:
        if not (words := plan.targets[case.server].prepare):
            continue
        try:
            start = suite_command(plan, case, words)
        except CaseFailedError:
            continue  # the measurement of the case will fail for the same reason
        key = (*start.words, start.environment["PATH"], str(start.folder))
        if key not in reasons:
            reasons[key] = await _why_not_prepared(start, watcher)
        if reasons[key]:
            unprepared[case] = reasons[key]
    return replace(plan, unprepared=unprepared)


async def _why_not_prepared(start: Start, watcher: ProgressListener) -> str:
    """Run the command, and return why it failed, or an empty string if it succeeded."""
    command = " ".join(start.words)
    watcher.say(f"preparing: {command}")
    try:
        await run_command(start.words, start.folder, start.environment)
    except BadInputError as error:
        return f"the prepare command failed: {command!r}: {error}"
    except OSError as error:
        return f"the prepare command can't be started: {start.words[0]!r}: {error.strerror}"
    return ""


async def with_environments(plan: Plan, watcher: ProgressListener) -> Plan:
    """Install the packages that the servers need; return the plan with the prepared environments or Pythons."""
    if plan.suite.folder is not None:
        environments: dict[EnvironmentKey, Path | str] = {}
        for case in (*plan.references, *plan.cases, *plan.ceilings):
            key, folder = plan.environment_of(case), plan.folder_of(case) or Path()
            is_needed = key.requirements or key.additions
            if is_needed and key not in environments and not missing_library(plan.targets[case.server]):
                environments[key] = await _environment(key, plan.python_of(case), folder, watcher)
        return _without_unavailable(replace(plan, environments=environments), watcher)
    pythons = dict(plan.pythons)
    for version, python in plan.pythons.items():
        cases = [case for case in plan.cases if plan.python_of(case) is python]
        needed = needed_by((plan.targets[case.server].path for case in cases), (case.task for case in cases))
        if cases:
            pythons[version] = await with_packages(python, watcher.warn, needed)
    return replace(plan, pythons=pythons)


def _without_unavailable(plan: Plan, watcher: ProgressListener) -> Plan:
    """Return the plan without servers that were chosen for the user, and whose packages can't be added."""
    reasons = {case: plan.environments.get(plan.environment_of(case)) for case in plan.cases}
    kept = tuple(case for case, reason in reasons.items() if not isinstance(reason, str))
    if plan.suite.application is None or not kept:
        return plan
    left_out: dict[SkippedServer, None] = {}
    for case, reason in reasons.items():
        if isinstance(reason, str):
            title = plan.targets[case.server].title
            left_out[SkippedServer(case.server, title, case.python, f"lacks a package: {reason}")] = None
    for skipped in left_out:
        watcher.warn(f"{skipped.server} is left out: it {skipped.reason}")
    return replace(plan, cases=kept, left_out=(*plan.left_out, *left_out))


async def _environment(key: EnvironmentKey, python: Interpreter, folder: Path, watcher: ProgressListener) -> Path | str:
    """Create an environment with the requirements, if any, and then one with the additions; return its directory."""
    if key.requirements:
        directory = await environment_with(key.requirements, python, folder, watcher.warn)
        if isinstance(directory, str) or not key.additions:
            return directory
        python = interpreter(str(directory / "bin" / "python"), OLDEST_USER_PYTHON)
    return await environment_beside(key.additions, python, watcher.warn)


async def package_versions(plan: Plan) -> dict[str, dict[str, str]]:
    """Return the versions of the servers' packages for each environment or, if the suite has none, for each Python."""
    pythons = {
        f"{key.python} with {', '.join((*key.requirements, *key.additions))}": str(venv / "bin" / "python")
        for key, venv in plan.environments.items()
        if isinstance(venv, Path)
    } or {version: python.path for version, python in plan.pythons.items()}
    return {name: await asyncio.to_thread(packages_of, path) for name, path in pythons.items()}


async def expectations_of(plan: Plan, services: Services, watcher: ProgressListener) -> Expectations:
    """Return the expected responses and their durations, from a trial of each task or from the first server.

    Raises:
        BadInputError: a task can't be performed, or the suite's files or ignored JSON paths don't exist.
    """
    if not plan.suite.has_task:
        return await ask_for_references(plan, services, watcher)
    case_by_work = {case.work: case for case in plan.cases}
    return {
        work: await try_task(case.task, plan.python_of(case), plan.suite.folder) for work, case in case_by_work.items()
    }


async def ask_for_references(plan: Plan, services: Services, watcher: ProgressListener) -> Expectations:
    """Return the expected response of each request; ask the servers of the plan for it."""
    everything, by_job = (*plan.references, *plan.cases, *plan.ceilings), dict[Work, Expectation]()
    for case in plan.cases:
        if case.job not in by_job:
            alike = [other for other in everything if other.job == case.job]
            by_job[case.job] = await _reference(plan, alike, services, watcher)
    return {case.work: by_job[case.job] for case in everything if case.job in by_job}


async def _reference(plan: Plan, cases: Sequence[Case], services: Services, watcher: ProgressListener) -> Expectation:
    """Return the response of the first server that returns the expected statuses; start each server only once."""
    expect = plan.suite.expect
    if plan.load.files:
        return Expectation(b"", UNKNOWN_S, 0.0, expect.status, files=_files(plan))
    wanted = plan.load.mix or (MixedRequest("", plan.load.request, 1, expect.status, expect.rule, expect.reference),)
    expectations = [_without_answer(one) for one in wanted]
    first_cases: dict[object, Case] = {}
    depends_on_workers = plan.suite.application is not None and plan.suite.application.needs_loop
    for case in cases:
        workers = case.get(WORKERS) if depends_on_workers else None
        first_cases.setdefault((case.server, case.get(REVISION), workers), case)
    failures: list[tuple[str, CaseFailedError]] = []
    for case in first_cases.values():
        watcher.case_begins(f"expected response  {case.server}", 0.0)
        try:
            answers = await _answers(plan, case, services, watcher, wanted)
            expectations = [_expectation(plan, case, watcher, *each) for each in zip(wanted, answers, strict=True)]
            break
        except CaseFailedError as failed:  # the measurement of the case will fail for the same reason
            failures.append((case.server, failed))
            if plan.suite.application is None and failed.code == "error_answer" and len(failures) == 1:
                watcher.warn(f"{case.server}: {failed}")  # with what to do, unlike the failure of the measurement
        _stop_if_hopeless(plan, case, failures, len(first_cases))
    if not plan.load.mix:
        return expectations[0]
    requests = [
        (one.path, replace(each, number=number, request=one.request))
        for number, (one, each) in enumerate(zip(wanted, expectations, strict=True))
    ]
    mix = Mix(plan.load.order(plan.seed), requests)
    return Expectation(b"", max(each.task_s for each in expectations), 0.0, expect.status, mix=mix)


def _stop_if_the_base_fails(plan: Plan, case: Case, failed: CaseFailedError) -> None:
    base, lacks = next(iter(plan.suite.revisions)), plan.suite.ignored
    if case.get(REVISION) != base:
        return
    names = " ".join(f"--copy {shlex.quote(name.rstrip('/'))}" for name in lacks[:MOST_NAMED])
    why = f"; its checkout has no git-ignored files and no submodules: if it needs them, use {names}" if lacks else ""
    raise BadInputError(f"the base, {base}, fails: {failed}{why}")


def _stop_if_hopeless(plan: Plan, case: Case, failures: Sequence[tuple[str, CaseFailedError]], servers: int) -> None:
    """Raise BadInputError if the application itself fails, so that no server can run it.

    A response shows this at once, because every server runs the same application; otherwise, two servers have to fail.
    """
    server, failed = failures[-1]
    if plan.suite.application is None:
        if failed.code in OF_REQUESTS:
            raise BadInputError(f"{server}: {failed}")
        return
    if plan.suite.revisions:
        _stop_if_the_base_fails(plan, case, failed)
        return
    is_hopeless = failed.code in HOPELESS or case in plan.references
    enough = servers if plan.suite.application.needs_loop else min(2, servers)
    if is_hopeless or len(failures) >= enough:
        raise BadInputError(f"{plan.suite.application.name} on {server}: {failed}")


def _without_answer(wanted: MixedRequest) -> Expectation:
    """Return the expectation for a request that no server has answered."""
    is_known = wanted.answer is not None or wanted.rule.mode in (FIELDS, PATTERN)
    rule = wanted.rule if is_known else BodyRule(ANY)
    return Expectation(wanted.answer or b"", UNKNOWN_S, 0.0, wanted.status, rule)


def _expectation(
    plan: Plan,
    case: Case,
    watcher: ProgressListener,
    wanted: MixedRequest,
    answered: tuple[list[HttpResponse], list[float]],
) -> Expectation:
    """Return the expectation based on the responses of a server; warn if the responses differ."""
    answers, times_s = answered
    took_s = min(times_s)
    if not plan.suite.has_task:
        _warn_of_a_cache(plan, case, watcher, wanted, times_s)
    errors = list(map(_error_in, answers)) if wanted.status < ERROR_STATUS else []
    if error := next(filter(None, errors), None):
        share = f" in {len(errors) - errors.count(None)} of {len(errors)} responses" if None in errors else ""
        watcher.warn(f"{case.server} reports an error with status {wanted.status}{share}: {quoted_error(error)}")
        answers = [answer for answer, error in zip(answers, errors, strict=True) if not error] or answers
    if plan.load.stream:
        return _expected_events(plan, case, watcher, wanted, plan.load.stream, (answers, times_s))
    if answers[0].headers.get("content-type", "").startswith(EVENT_STREAM):
        option = "--stream sse" if plan.suite.application else 'stream = "sse" under [load]'
        watcher.warn(f"{case.server} sends a stream of events; to measure when each event arrives, use {option}")
    first = answers[0].body if wanted.answer is None else wanted.answer
    if wanted.answer is None and (path := wanted.rule.unused(first)):
        raise BadInputError(
            f"{plan.suite.source}: expect.ignore names {path!r}, but the expected response does not contain it: "
            f"{HttpResponse(wanted.status, first, {}).described()}"
        )
    rule = _strictest_rule([answer.body for answer in answers], wanted.rule) if plan.suite.finds_rule else wanted.rule
    # A number of seconds grows by one, too, if responses take a second.
    in_a_row = [answer.body for answer in answers[:REFERENCE_REQUESTS]]
    counters = counters_in(in_a_row) if took_s < SLOWEST_COUNTED_S else ()
    order = KeyOrder() if plan.suite.finds_rule else None
    expectation = Expectation(first, took_s, 0.0, wanted.status, rule, counters=counters, key_order=order)
    odd = next((answer for answer in answers if not expectation.fits(answer.status, answer.body)), None)
    if odd is not None and odd is not answers[0]:
        different = f"{odd.described()} after {answers[0].described()}"
        watcher.warn(
            f"{case.server} returned {different} for the same request{odd.difference(answers[0])}; "
            f"if this is intended, {_looser(plan, wanted.rule, odd.body, first)}"
        )
    return expectation


def _error_in(answer: HttpResponse) -> bytes | None:
    """Return what reports an error in a response, although its status says success, or None."""
    if isinstance(answer, StreamResponse):
        return next(filter(reports_error, answer.events), None)
    return reported_error(answer.body, answer.headers.get("content-type", ""))


def _warn_of_a_cache(
    plan: Plan, case: Case, watcher: ProgressListener, wanted: MixedRequest, times_s: Sequence[float]
) -> None:
    """Warn if the first of several equal requests took much longer than the others."""
    first_s, later_s = times_s[0], max(times_s[1:])
    is_same = not names_in_request(wanted.path or plan.load_of(case).path, wanted.request)
    if is_same and first_s - later_s >= CACHED_S and first_s >= CACHED * later_s:
        watcher.warn(
            f"{case.server} took {formatting.seconds(first_s)} for the first response, and up to "
            f"{formatting.seconds(later_s)} for the next: if a cache answers equal requests, the results are those of "
            "the cache; to vary the requests, put {n} into the path or the body"
        )


def _expected_events(
    plan: Plan,
    case: Case,
    watcher: ProgressListener,
    wanted: MixedRequest,
    stream: Stream,
    answered: tuple[list[HttpResponse], list[float]],
) -> Expectation:
    """Return the expected events of a stream, based on the streams of a server; warn if these differ."""
    streams, took_s = [answer.events for answer in answered[0] if isinstance(answer, StreamResponse)], min(answered[1])
    events = streams[0]
    stream = _with_text(plan, stream, events)
    if wanted.answer is not None:
        parser = EventParser(stream.kind)
        events = (*parser.feed(wanted.answer), *parser.end())
    if events and all(wanted.rule.unused(event) for event in events):
        name = wanted.rule.unused(events[0])
        raise BadInputError(
            f"{plan.suite.source}: expect.ignore names {name!r}, but no event of the stream contains it"
        )
    looser = _looser_rules(wanted.rule, (pair for other in streams for pair in zip(other, events, strict=False)))
    for rule in looser if plan.suite.finds_rule else (wanted.rule,):
        is_counted = rule.mode in (SAME, JSON) and stream.time_s is None
        count = plan.suite.expect.events or (len(events) if is_counted else None)
        expectation = Expectation(
            b"", took_s, 0.0, wanted.status, rule, stream=stream, events=events, event_count=count
        )
        problem = next(filter(None, map(expectation.problem_of_events, streams)), "")
        if not problem:
            return expectation
    watcher.warn(
        f"{case.server} returned different streams for the same request ({problem}); if this is intended, "
        f"{_looser(plan, wanted.rule, *_differing(streams, events))}"
    )
    return expectation


def _with_text(plan: Plan, stream: Stream, events: Sequence[bytes]) -> Stream:
    """Return the stream with the places of its text, if the user names them, or if its format is known."""
    if not stream.text:
        return stream if stream.kind == CHUNKS else replace(stream, text=places_of_text(events))
    if not any(counts(event, stream) for event in events):
        option = "--first" if plan.suite.is_from_options else f"{plan.suite.source}: load.first ="
        seen = " and ".join(repr(masked(legible(event.decode(errors="replace")))[:MOST_QUOTED]) for event in events[:2])
        raise BadInputError(
            f"{option} {stream.text[0]}: expected an event with it, but none of the {len(events):,} events of a stream "
            f"has it; the first: {seen or 'none'}"
        )
    return stream


def _differing(streams: Sequence[Sequence[bytes]], right: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return the first event that differs from the expected one, and the expected event."""
    pairs = (pair for events in streams for pair in zip(events, right, strict=False))
    return next(((one, other) for one, other in pairs if one != other), (b"", b""))


def _strictest_rule(bodies: Sequence[bytes], wanted: BodyRule) -> BodyRule:
    """Return the strictest rule with which all responses of an application to the same request are correct.

    Args:
        wanted: the rule of the user, with the fields to ignore.
    """
    first = bodies[0]
    rules = _looser_rules(wanted, [(body, first) for body in bodies])
    return next(rule for rule in rules if not any(rule.problem(body, first) for body in bodies))


def _looser_rules(wanted: BodyRule, pairs: Iterable[tuple[bytes, bytes]]) -> tuple[BodyRule, ...]:
    """Return the user's rule, one that also ignores the fields in which the pairs differ, and one that checks none."""
    paths = dict.fromkeys(path for pair in pairs for path in wanted.differing_paths(*pair))
    return wanted, BodyRule(JSON, ignored=(*wanted.ignored, *paths)), BodyRule(ANY)


def _looser(plan: Plan, rule: BodyRule, body: bytes, right: bytes) -> str:
    """Say which options, or which setting under [expect], would make both responses correct."""
    paths = rule.differing_paths(body, right)
    paths = paths if len(paths) <= MOST_PATHS else []
    if plan.suite.is_from_options:
        return " ".join(["use", *(f"--ignore {shlex.quote(path)}" for path in paths)] if paths else ["use --any-body"])
    if paths:
        names = ", ".join(json.dumps(path, ensure_ascii=False) for path in (*rule.ignored, *paths))
        return f"put ignore = [{names}] under [expect]"
    looser = 'body = "json" or body = "any"' if rule.mode == SAME else 'body = "any"'
    return f"put {looser} under [expect]"


def _files(plan: Plan) -> Files:
    folder = (plan.suite.folder or Path()) / plan.load.files
    if not (files := Files(folder)).sizes:
        raise BadInputError(f"{plan.suite.source}: load.files: no files in {str(folder)!r}; expected at least one")
    return files


async def _answers(
    plan: Plan, case: Case, services: Services, watcher: ProgressListener, wanted: Sequence[MixedRequest]
) -> list[tuple[list[HttpResponse], list[float]]]:
    """Return, for each request, its responses and their durations in seconds; raise CaseFailedError for a wrong status.

    If the responses decide how they are compared, those in JSON are followed by one more after a second, because they
    may contain a clock, and by one of another process, which may have another id. If users send different requests,
    the response to another user follows, too.
    """
    async with client() as session, running(plan, case, None, services) as server:
        await server.while_alive(until_ready(server, session))
        await server.while_alive(server.set_up(session))
        found = []
        for one in wanted:
            times, answers = list[float](), list[HttpResponse]()
            for _ in range(REFERENCE_REQUESTS):
                asked_s = server.age_s()
                right = answers[0].body if answers else b""
                asking = _answer(plan, server, session, one, right, is_repeated=bool(answers))
                answers.append(await server.while_alive(asking))
                times.append(server.age_s() - asked_s)
            if plan.suite.finds_rule and (other := await server.while_alive(_for_another_agent(plan, server, session))):
                _compare_agents(case, watcher, answers, other)
            found.append((answers, times))
        may_vary = [
            (one, answers)
            for one, (answers, _) in zip(wanted, found, strict=True)
            if plan.suite.finds_rule and not plan.load.stream and isinstance(as_json(answers[0].body), dict | list)
        ]
        if may_vary:
            await server.while_alive(asyncio.sleep(CLOCK_S))
        for one, answers in may_vary:
            answers.append(await server.while_alive(_answer(plan, server, session, one, answers[0].body)))
        if differs_by_user(plan.load_of(case)):
            await server.while_alive(server.set_up(session, 2))
            for one, (answers, _) in zip(wanted, found, strict=True):
                answers.append(await server.while_alive(_answer(plan, server, session, one, answers[0].body)))
    if may_vary and server.pid:
        async with client() as session, running(plan, case, None, services) as server:
            await server.while_alive(until_ready(server, session))
            await server.while_alive(server.set_up(session))
            for one, answers in may_vary:
                answers.append(await server.while_alive(_answer(plan, server, session, one, answers[0].body)))
    return found


async def _for_another_agent(plan: Plan, server: Server, session: aiohttp.ClientSession) -> HttpResponse | None:
    """Return the response to the request with another User-Agent, as load tools send it, or None if this is unknown."""
    load, path = plan.load, server.load_url.removeprefix(server.url)
    is_given = any(name.lower() == "user-agent" for name, _ in load.request.headers)
    if is_given or load.stream or load.posts_jobs or not load.request.may_be_repeated:
        return None
    request = replace(load.request, headers=(*load.request.headers, ("User-Agent", _OTHER_AGENT)))
    with contextlib.suppress(CaseFailedError, aiohttp.ClientError):
        return await server.send_load_request(session, LONGEST_REFERENCE_S, one=MixedRequest(path, request))
    return None


def _compare_agents(case: Case, watcher: ProgressListener, answers: list[HttpResponse], other: HttpResponse) -> None:
    """Add the response to another User-Agent if only fields differ, which are then ignored; otherwise, warn.

    Load tools send their own User-Agent, so the responses that they get can't be compared with those of the bench.
    """
    first = answers[0]
    if any(answer.body != first.body for answer in answers) or (other.status, other.body) == (first.status, first.body):
        return
    if other.status == first.status and BYTES.differing_paths(other.body, first.body):
        answers.append(other)
        return
    watcher.warn(
        f"{case.server} returned {other.described()} to another User-Agent instead of {first.described()}: use "
        "--header 'User-Agent: NAME' with the one that counts, so that the bench and the load tool send the same"
    )


async def _answer(
    plan: Plan,
    server: Server,
    session: aiohttp.ClientSession,
    wanted: MixedRequest,
    right: bytes,
    *,
    is_repeated: bool = False,
) -> HttpResponse:
    """Return a response; `right` is an earlier one, which it may equal. `is_repeated`: the same server has sent it."""
    try:
        async with asyncio.timeout(LONGEST_REFERENCE_S + GRACE_S):  # a stream can last longer than each wait in it
            named = wanted if wanted.path else None
            answer = await server.send_load_request(session, LONGEST_REFERENCE_S, right, named)
    except TimeoutError:
        option = "--events 100" if plan.suite.application else "events = 100 under [load]"
        why = f"the stream did not end within {LONGEST_REFERENCE_S:.0f} s; to read only the first events, use {option}"
        raise CaseFailedError("endless_stream", f"{server.load_url}: {why}") from None
    except aiohttp.ClientConnectorError as error:
        raise CaseFailedError("refused", f"the request to {server.load_url} was refused: {error.strerror}") from None
    if answer.status != wanted.status:
        path = f"{server.load_url}{wanted.path.removeprefix('/')}"
        what = f"{path} returned {answer.described()}"
        if is_repeated and answer.status >= 400 and answer.status not in BUSY:
            request = wanted.request if wanted.path else plan.load.request
            if not {*names_in_request(server.load_url + wanted.path, request)} - {"user"}:  # it is the same each time
                once = f"the same request succeeds only once ({wanted.status}, then {answer.described()})"
                raise CaseFailedError("succeeds_once", f"{request.method} {path}: {once}; {how_to_vary(request)}")
        remedy = remedy_for(server, answer, wanted if wanted.path else None)
        raise CaseFailedError("error_answer", f"{what} instead of {wanted.status}{remedy}")
    return answer
