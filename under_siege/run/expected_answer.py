"""The right answer where nobody knows it before: the first one of the first server that gives any."""

from collections.abc import Sequence
from pathlib import Path

import aiohttp

from common.errors import BadInputError
from under_siege.environments.services import Services
from under_siege.errors import CaseFailedError
from under_siege.http_client import Answer, client
from under_siege.model.case import Case
from under_siege.model.suite import ANY, SAME
from under_siege.run.case_run import new_record
from under_siege.run.plan import Plan
from under_siege.run.progress_listener import ProgressListener
from under_siege.run.server import Server, running
from under_siege.targets.expectation import Expectation, Expectations, Files, Work

MOST_BYTES = 16_000_000
ASKED = 3  # times, and the quickest tells how long an answer takes
UNKNOWN_S = 0.1  # how long it is taken to need where no server has answered


async def ask_for_references(plan: Plan, services: Services, watcher: ProgressListener) -> Expectations:
    """What is right for each thing that is asked for, whatever serves it."""
    found: Expectations = {}
    by_job: dict[Work, Expectation] = {}
    for case in plan.cases:
        if case.job not in by_job:
            alike = [one for one in (*plan.cases, *plan.ceilings) if one.job == case.job]
            by_job[case.job] = await _reference(plan, alike, services, watcher)
        found[case.work] = by_job[case.job]
    return found | {case.work: by_job[case.job] for case in plan.ceilings if case.job in by_job}


async def _reference(plan: Plan, cases: Sequence[Case], services: Services, watcher: ProgressListener) -> Expectation:
    """From the first server that answers with the right status; each is asked once, however many cases it has."""
    expect, tried = plan.suite.expect, set()
    if plan.load.files:
        return Expectation(b"", UNKNOWN_S, 0.0, expect.status, files=_files(plan))
    for case in cases:
        if case.server in tried:
            continue
        tried.add(case.server)
        watcher.case_begins(f"the right answer  {case.server}", 0.0)
        try:
            answers, took_s = await _asked(plan, case, services)
        except CaseFailedError:
            continue  # it will fail in its turn, which says why
        first = answers[0].body if expect.reference is None else expect.reference
        expectation = Expectation(first, took_s, 0.0, expect.status, expect.body)
        if odd := next((one for one in answers[1:] if not expectation.fits(one.status, one.body)), None):
            watcher.warn(
                f"{case.server} does not give the same answer twice: {odd.described()} after {answers[0].described()}; "
                f'if that is by design, put body = "json" or body = "any" under [expect]'
            )
        return expectation
    return Expectation(
        expect.reference or b"", UNKNOWN_S, 0.0, expect.status, ANY if expect.reference is None else SAME
    )


def _files(plan: Plan) -> Files:
    folder = (plan.suite.folder or Path()) / plan.load.files
    if not (files := Files(folder)).sizes:
        raise BadInputError(
            f"{plan.suite.source} [load] files: there are none in {str(folder)!r}; expected at least one"
        )
    return files


async def _asked(plan: Plan, case: Case, services: Services) -> tuple[list[Answer], float]:
    """Answers of the right status, and how long the quickest took; raises CaseFailedError."""
    async with client() as session, running(plan, case, new_record(plan, case, 0.0, 1), services) as server:
        await server.while_alive(server.ready(session))
        times, answers = [], []
        for _ in range(ASKED):
            asked_s = server.age_s()
            answers.append(await server.while_alive(_answer(server, session, plan.suite.expect.status)))
            times.append(server.age_s() - asked_s)
        return answers, min(times)


async def _answer(server: Server, session: aiohttp.ClientSession, status: int) -> Answer:
    try:
        answer = await server.asking(session, server.load_url, 60.0, MOST_BYTES)
    except aiohttp.ClientConnectorError as error:
        raise CaseFailedError("refused", f"GET {server.load_url} was refused: {error.strerror}") from None
    if answer.status != status:
        raise CaseFailedError("error_answer", f"GET {server.load_url} gives {answer.described()} instead of {status}")
    return answer
