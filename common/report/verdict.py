"""The verdict: `ok`, `suspect` or `failed`, from records alone, so that old results can be judged again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from common.report.summary import Round

OK, SUSPECT, FAILED = "ok", "suspect", "failed"


class Reason(msgspec.Struct, frozen=True):
    """Why a verdict is not `ok`."""

    code: str
    message: str


def judge(rounds: Sequence[Round]) -> list[Reason]:
    """Every reason not to take the case at face value, the gravest first. What failed is not judged further."""
    failures = list(_each(rounds, _failure))
    return failures or [reason for rule in _SUSPICIONS for reason in _each(rounds, rule)]


def verdict_of(reasons: Sequence[Reason]) -> str:
    """The verdict that the reasons add up to."""
    if not reasons:
        return OK
    return FAILED if any(reason.code in _FAILURE_CODES for reason in reasons) else SUSPECT


def _each(rounds: Sequence[Round], rule: Callable[[Round], Reason | None]) -> Iterator[Reason]:
    """The reasons of all rounds, the same code only once: the first stands for the others."""
    told: dict[str, Reason] = {}
    for one in rounds:
        reason = rule(one)
        if reason is not None and reason.code not in told:
            where = f"round {one.record.round}: " if len(rounds) > 1 else ""
            told[reason.code] = Reason(reason.code, where + reason.message)
    yield from told.values()


def _failure(one: Round) -> Reason | None:
    record = one.record
    if record.failure is not None:
        return Reason(record.failure.code, record.failure.message)
    wrong = [
        size
        for status, size in zip(record.transactions.status, record.transactions.size_bytes, strict=True)
        if status == 200 and size != record.answer_bytes
    ]
    if wrong:
        return Reason(
            "wrong_answer",
            f"{len(wrong)} of {len(one.good)} answers under load were not the right one: "
            f"{wrong[0]} bytes long instead of {record.answer_bytes}",
        )
    if not any(one.good):
        return Reason("no_transactions", f"no transaction was completed in {record.siege_s or 0:.1f} s of siege")
    return None


def _availability(one: Round) -> Reason | None:
    missed = one.attempts - sum(one.good)
    if not missed:
        return None
    return Reason(
        "availability",
        f"{missed} of {one.attempts} requests got no right answer, so availability was "
        f"{100 - 100 * missed / one.attempts:.2f} %; the rate counts only the others",
    )


def _unanswered_pings(one: Round) -> Reason | None:
    problems = [problem for problem in one.record.pings.problem if problem]
    if not problems:
        return None
    return Reason(
        "pings",
        f"{len(problems)} of {len(one.record.pings.problem)} pings got no right answer; the first: {problems[0]}",
    )


def _too_short(one: Round) -> Reason | None:
    return Reason("too_short", one.rate.too_short) if one.rate.per_s is None else None


_SUSPICIONS: tuple[Callable[[Round], Reason | None], ...] = (_availability, _too_short, _unanswered_pings)
_FAILURE_CODES = {
    "died",
    "no_answer",
    "no_transactions",
    "not_ready",
    "port_kept",
    "siege_failed",
    "wrong_answer",
}
