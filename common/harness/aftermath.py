"""A check of the suite's own, after each load: a program that is told the address, and how many answers there were."""

from common.errors import BadInputError, one_line
from common.harness.failures import CaseFailedError
from common.harness.plan import Plan
from common.harness.ready.services import Services
from common.harness.ready.virtualenv import run_command
from common.harness.server import Server
from common.harness.start import checking
from common.model.case import Case
from common.model.record import Record


async def check_afterwards(plan: Plan, case: Case, server: Server, record: Record, services: Services) -> None:
    """Returns if it ends with 0, or if the suite has none.

    Raises:
        CaseFailedError: with the last line that it said.
    """
    if not plan.suite.expect.check:
        return
    answers = sum(record.bursts.right) + record.transactions.status.count(record.answer_status)
    told = record.bursts.body_bytes or [sum(record.transactions.size_bytes)]
    bytes_ = sum(filter(None, told)) if None not in told else ""  # not every tool tells
    places = {"url": server.load_url, "folder": server.folder, "answers": answers, "bytes": bytes_}
    start = checking(plan, case, places | await services.addresses(plan.targets[case.server].needs))
    try:
        await run_command(start.words, "", start.folder, start.environment)
    except BadInputError as error:
        raise CaseFailedError("wrong_answer", f"the suite's own check, after the load: {error}") from None
    except OSError as error:
        raise CaseFailedError("no_check", f"{start.words[0]!r} can't be started: {one_line(error)}") from None
