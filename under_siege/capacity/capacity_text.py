"""A capacity in words: the sustained rate of each server, which goal breaks first, and how to read the table."""

import math
from collections.abc import Iterator, Sequence

from under_siege import formatting
from under_siege.capacity.capacity_result import FAILED, UNDECIDED, Capacity
from under_siege.capacity.step_metrics import LATE_S, MUCH_BY_OTHERS, Offered
from under_siege.model.record import LeftOut, Result
from under_siege.model.threshold import Goal
from under_siege.report.labels import in_brief, in_plain_words, in_words, name_of, varying, with_capital

COLUMNS = (
    "sustained",
    "lower",
    "upper",
    "of ceiling",
    "p99",
    "ping p99",
    "breaks first",
    "CPU per answer",
    "memory",
)
NONE = TO = "–"  # noqa: RUF001 (an en dash, as in a table)
WORTH_SAYING = 1.03  # a constant speed would bring so much


def names_of(found: Sequence[Capacity]) -> list[str]:
    """What each is called beside the others."""
    cases = [one.case for one in found]
    tasks = [name for name in varying(cases) if name in ("task", "path")]
    return [name_of(one.case, cases) + (f" ({told})" if (told := in_words(one.case, tasks)) else "") for one in found]


def plain_names_of(found: Sequence[Capacity]) -> list[str]:
    """The same in plain words."""
    plain = [in_plain_words(one.case.server, one.title) for one in found]
    names = names_of(found)
    return [f"{what}{name.removeprefix(one.case.server)}" for what, name, one in zip(plain, names, found, strict=True)]


def brief_names_of(found: Sequence[Capacity]) -> list[str]:
    """As short as they can be, for a sentence."""
    names = zip(names_of(found), found, strict=True)
    return [in_brief(name, one.case.server, one.title) for name, one in names]


def headline(found: Sequence[Capacity]) -> str:
    """Return the server with the highest rate, for a slide."""
    able = [(one.holds, one, name) for one, name in zip(found, plain_names_of(found), strict=True) if one.holds]
    if not able:
        return "No server meets all goals at any rate that was offered"
    most, best, name = max(able, key=lambda of_one: of_one[0])
    others = [told for _, one, told in able if one is not best and (one.fails is None or one.fails > most)]
    as_much = f"; not significantly different: {_listed(others)}" if others else ", more than any other"
    return f"{name[:1].upper()}{name[1:]} {_interval(best)}{as_much}"


def per_s(value: float | None) -> str:
    """`41.3/s`."""
    return NONE if value is None else f"{formatting.significant(value, 3)}/s"


def time_of(value: float | None) -> str:
    """`37 ms`; infinite where answers were refused, wrong or lost."""
    if value is None:
        return NONE
    return "refused or lost" if value == math.inf else formatting.seconds(value)


def cells(one: Capacity) -> list[str]:
    """Its figures, as `COLUMNS` has them."""
    if one.verdict == FAILED:
        return ["failed", *[""] * (len(COLUMNS) - 1)]
    at = one.at
    return [
        per_s(one.per_s) if one.per_s else "none" if one.is_none else NONE,
        per_s(one.holds),
        per_s(one.fails),
        formatting.share(one.of_ceiling) if one.of_ceiling else NONE,
        time_of(at.percentile_s("response", 99)) if at else NONE,
        time_of(at.percentile_s("ping", 99)) if at else NONE,
        _what_breaks(one),
        formatting.seconds(at.cpu_s) if at and at.cpu_s else NONE,
        formatting.megabytes(at.memory_bytes) if at and at.memory_bytes else NONE,
    ]


def _what_breaks(one: Capacity) -> str:
    """The goal, and what it was at the lowest rate at which it was missed."""
    if one.breaks is None:
        return "nothing"
    beyond = _first_missed(one, one.breaks)
    seen = f": {told(beyond, one.breaks)} at {per_s(beyond.per_s)}" if beyond else ""
    return f"{_figure(one.breaks)}{seen}"


def _first_missed(one: Capacity, goal: Goal) -> Offered | None:
    """The lowest rate at which it was missed, of those beyond the one that holds."""
    missed = [step for step in one.steps if goal in one.missed_at(step)]
    beyond = [step for step in missed if not one.holds or step.per_s >= one.holds]
    return min(beyond or missed, key=lambda step: step.per_s, default=None)


def _figure(goal: Goal) -> str:
    return goal.text.partition(goal.operator)[0].strip()


def told(one: Offered, goal: Goal) -> str:
    """The figure of a goal in a step, with its unit."""
    value = one.value(goal)
    if value is None:
        return NONE
    if goal.figure == "availability_pct":
        return formatting.percent(value)
    if goal.figure == "memory_bytes":
        return formatting.megabytes(value)
    more = "more than " if one.step.broke and value != math.inf else ""
    return more + time_of(value)


def conclusion(found: Sequence[Capacity], left_out: Sequence[LeftOut] = ()) -> Iterator[str]:
    """Yield the best server, those that meet their goals at no rate, and what limits these results."""
    names = dict(zip(map(id, found), brief_names_of(found), strict=True))
    able = sorted((one for one in found if one.holds), key=lambda one: one.per_s or one.holds or 0.0, reverse=True)
    if able:
        yield _of_the_best(able, names)
    for one in found:
        yield from _of_one(one, with_capital(names[id(one)], one.case.server))
    yield from _disturbances(found)
    if undecided := [names[id(one)] for one in found if one.verdict == UNDECIDED and one.holds]:
        yield f"The interval is wide for {_listed(undecided)}: search longer (--time 3m) or on a quieter machine."
    for lacking in left_out:
        name = in_brief(lacking.server, lacking.server, lacking.title)
        yield f"Not tested: {name}, because it {lacking.reason}."


def _of_one(one: Capacity, name: str) -> Iterator[str]:
    """Yield what is special about it."""
    if one.verdict == FAILED:
        yield f"{name}: search failed: {one.failure}."
        return
    if one.is_none:
        yield f"{name}: no rate meets the goals; {_why_none(one)}."
    elif one.holds is None:
        yield f"{name} fails at {per_s(one.fails)}, and no lower rate that was offered met the goals."
    elif one.fails is None:
        yield f"{name} meets every goal at every rate that was offered, up to {_up_to(one)}."
    if one.per_s and one.steady_per_s and one.steady_per_s > WORTH_SAYING * one.per_s:
        yield f"{name}: on a machine of constant speed, {per_s(one.steady_per_s)} instead of {per_s(one.per_s)}."
    if one.limited:
        yield _limit(one, name)


def _disturbances(found: Sequence[Capacity]) -> Iterator[str]:
    late_s = max((step.late_s for one in found for step in one.steps), default=0.0)
    if late_s > LATE_S:
        yield (
            f"The load generator was up to {formatting.seconds(late_s)} late (p99 of a step). "
            "Latency includes this, because it counts from when a request was due."
        )
    most = max((step.by_others for one in found for step in one.steps), default=0.0)
    if most > MUCH_BY_OTHERS:
        yield f"Other programs used up to {formatting.share(most)} of the CPUs during a step: use a quieter machine."


def _of_the_best(able: Sequence[Capacity], names: dict[int, str]) -> str:
    """Return the one with the highest rate, and those whose intervals overlap with it."""
    best = able[0]
    alike = [one for one in able if one is best or (one.fails or math.inf) >= (best.holds or 0.0)]
    share = f", {formatting.share(best.of_ceiling)} of the ceiling" if best.of_ceiling else ""
    goals = " and ".join(dict.fromkeys(one.text for one in best.goals))
    beside = f"; not significantly different: {_listed([names[id(one)] for one in alike[1:]])}" if alike[1:] else ""
    return f"With {goals}, {names[id(best)]} {_interval(best)}{share}{beside}."


def _interval(one: Capacity) -> str:
    """`holds 15.2 requests/s (95 % CI 14.1–16.3)`."""  # noqa: RUF002
    if one.per_s is None or one.holds is None or one.fails is None:
        return f"holds at least {_number(one.holds)} requests/s"
    return f"holds {_number(one.per_s)} requests/s (95 % CI {_number(one.holds)}{TO}{_number(one.fails)})"


def _number(value: float | None) -> str:
    return NONE if value is None else formatting.significant(value, 3)


def in_one_sentence(one: Capacity) -> str:
    """For those who can't see a picture of it."""
    name = with_capital(in_brief(one.case.server, one.case.server, one.title), one.case.server)
    if one.verdict == FAILED:
        return f"{name}: search failed."
    return f"{name} {_interval(one) if one.holds else f'meets the goals at no rate; {_why_none(one)}'}."


def _why_none(one: Capacity) -> str:
    """`even at 1/s the ping p99 is 80 ms`."""
    lowest = min(one.steps, key=lambda step: step.per_s, default=None)
    missed = one.missed_at(lowest) if lowest else []
    if lowest is None or not missed:
        return f"the upper bound is {per_s(one.fails)}"
    said = " and ".join(f"{_figure(goal)} is {told(lowest, goal)}" for goal in missed)
    return f"even at {per_s(lowest.per_s)} {said}"


def _up_to(one: Capacity) -> str:
    highest = per_s(max(step.per_s for step in one.steps))
    if one.ceiling_per_s and one.most_per_s >= one.ceiling_per_s * 0.99:
        return f"{highest}; the ceiling is {per_s(one.ceiling_per_s)}"
    return highest


def _limit(one: Capacity, name: str) -> str:
    """Return what the load generator could not do."""
    assert one.limited is not None
    awake = one.limited.step.generator_awake
    busy = f" and it was busy for {formatting.share(awake)} of the time" if awake else ""
    late = formatting.seconds(one.limited.late_s)
    return (
        f"{name}: the load generator was the limit at {per_s(one.limited.per_s)}: its requests were "
        f"{late} late (p99){busy}. This step and higher rates are not counted."
    )


def footnote(result: Result, found: Sequence[Capacity]) -> str:
    """How to read the table, and how it was made."""
    machine = result.environment
    count = sum(len(one.steps) for one in found)
    steps = f"{count} step{'s' if count != 1 else ''}"
    return (
        "Poisson arrivals; latency counts from when a request was due; refused, wrong and lost answers never arrived · "
        "sustained (lower, upper): the highest rate that meets all goals, with its 95 % confidence interval, "
        "speed-adjusted · p99, ping p99, CPU, memory: of the step nearest to that rate which met the goals\n"
        f"{machine.usable_cpus} CPUs · Python {', '.join(machine.pythons)} · {steps} · seed {result.seed}"
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
