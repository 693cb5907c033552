"""Format capacities as sentences, tables, Markdown, CSV and JSON data."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from under_siege import formatting
from under_siege.capacity.estimate import FAILED, UNDECIDED, Capacity, capacities_of
from under_siege.capacity.step_metrics import LATE_S, MUCH_BY_OTHERS, OUTCOMES, StepMetrics, percentile_of
from under_siege.formatting import capitalized, listed, significant
from under_siege.judge.case_names import in_brief, in_plain_words, in_words, name_of, varying, with_capital
from under_siege.judge.goal import Goal
from under_siege.record.result import Result, SkippedServer
from under_siege.show.notes import cores
from under_siege.show.text_tables import Grid, Heading, TableCell, plain, rows_as_csv, small_print

COLUMNS = (
    *("sustained", "lower", "upper", "of ceiling", "p99", "ping p99"),
    *("first goal missed", "CPU per response", "memory"),
)
STEP_COLUMNS = ("offered", "p99", "ping p99", "goodput", "missed")
NONE = TO = "–"  # noqa: RUF001 (an en dash, as in a table)


class NamedCapacity(NamedTuple):
    """A capacity, and names that distinguish its server from the other servers."""

    capacity: Capacity
    name: str  # such as 4_async_processexecutor
    plain: str  # such as process pool
    brief: str  # such as process pool (4)


def named(capacities: Sequence[Capacity]) -> list[NamedCapacity]:
    """Return each capacity with distinctive names for its server."""
    cases = [capacity.case for capacity in capacities]
    axes = [name for name in varying(cases) if name in ("task", "path")]
    several = []
    for capacity in capacities:
        server, title, suffix = capacity.case.server, capacity.title, in_words(capacity.case, axes)
        name = name_of(capacity.case, cases) + (f" ({suffix})" if suffix else "")
        plain_name = in_plain_words(server, title) + name.removeprefix(server)
        several.append(NamedCapacity(capacity, name, plain_name, in_brief(name, server, title)))
    return several


def _best(several: Sequence[NamedCapacity]) -> tuple[NamedCapacity | None, list[NamedCapacity]]:
    """Return the highest capacity (None if there is none) and all others whose intervals overlap with its interval."""
    able = [each for each in several if each.capacity.lower_per_s]
    able.sort(key=lambda each: each.capacity.per_s or each.capacity.lower_per_s or 0.0, reverse=True)
    least = able[0].capacity.lower_per_s or 0.0 if able else 0.0
    return next(iter(able), None), [each for each in able[1:] if (each.capacity.upper_per_s or math.inf) >= least]


def headline(capacities: Sequence[Capacity]) -> str:
    best, others = _best(named(capacities))
    if best is None:
        return "No server meets all goals at any offered rate"
    return f"{capitalized(best.plain)} {_interval(best.capacity)}{_not_different([other.plain for other in others])}"


def _not_different(names: Sequence[str]) -> str:
    return f"; not significantly different: {listed(names)}" if names else ""


def per_s(value: float | None) -> str:
    """Format a rate, such as `41.3/s`, or return a dash if it is None."""
    return NONE if value is None else f"{significant(value)}/s"


def _time_of(step: StepMetrics | None, kind: str, percent: float = 99) -> str:
    """Format a percentile, such as `37 ms`; if it is infinite, return the most frequent reason."""
    value = step.percentile_s(kind, percent) if step else None
    if value is None or step is None:
        return NONE
    if value < math.inf:
        return formatting.seconds(value)
    shares = step.shares(math.inf) if kind == "response" else {"lost": 1.0}
    return OUTCOMES[max(shares, key=lambda name: shares[name])]


def _share(share: float) -> str:
    return f"{significant(100 * share, 2)} %"


def cells(capacity: Capacity) -> list[str]:
    """Return the cells of a server's row, in the order of `COLUMNS`."""
    if capacity.verdict == FAILED:
        return ["failed", *[""] * (len(COLUMNS) - 1)]
    nearest = capacity.nearest_step
    return [
        per_s(capacity.per_s) if capacity.per_s else "none" if capacity.is_none else NONE,
        per_s(capacity.lower_per_s),
        per_s(capacity.upper_per_s),
        formatting.share(capacity.of_ceiling) if capacity.of_ceiling else NONE,
        _time_of(nearest, "response"),
        _time_of(nearest, "ping"),
        _missed(capacity.first_missed, capacity.breaks),
        formatting.seconds(nearest.cpu_s) if nearest and nearest.cpu_s else NONE,
        formatting.megabytes(nearest.memory_bytes) if nearest and nearest.memory_bytes else NONE,
    ]


def _missed(step: StepMetrics | None, goal: Goal | None) -> str:
    """Describe a missed goal, such as `p99: 1.4 s at 20.3/s`."""
    if step is None or goal is None:
        return "none"
    return f"{goal.text.partition(goal.operator)[0].strip()}: {_goal_value(step, goal)} at {per_s(step.per_s)}"


def _goal_value(step: StepMetrics, goal: Goal) -> str:
    kind, percent = percentile_of(goal)
    value = step.value(goal)
    if kind or value is None:
        return _time_of(step, kind, percent)
    return {"availability_pct": formatting.percent, "memory_bytes": formatting.megabytes}.get(
        goal.figure, formatting.seconds
    )(value)


def conclusion(capacities: Sequence[Capacity], left_out: Sequence[SkippedServer] = ()) -> Iterator[str]:
    """Yield sentences about the best server, about problems of individual servers, and about the measurement."""
    several = named(capacities)
    best, others = _best(several)
    if best:
        of_ceiling = best.capacity.of_ceiling
        share = f", {formatting.share(of_ceiling)} of the ceiling" if of_ceiling else ""
        goals = " and ".join(dict.fromkeys(goal.text for goal in best.capacity.goals))
        compared = _not_different([other.brief for other in others])
        yield f"With {goals}, {best.brief} {_interval(best.capacity)}{share}{compared}."
    for each in several:
        name = with_capital(each.brief, each.capacity.case.server)
        yield from (f"{name}{remark}." for remark in _remarks(each.capacity))
    steps = [step for capacity in capacities for step in capacity.steps]
    late_s = max((step.late_s for step in steps), default=0.0)
    if late_s > LATE_S:
        yield (
            f"The load generator was up to {formatting.seconds(late_s)} late (p99 of a step). "
            "Latency includes this delay, because it is measured from when a request was due."
        )
    most = max((step.by_others for step in steps), default=0.0)
    if most > MUCH_BY_OTHERS:
        yield f"Other programs used up to {formatting.share(most)} of the CPUs during a step: use a quieter machine."
    if wide := [each.brief for each in several if each.capacity.verdict == UNDECIDED and each.capacity.lower_per_s]:
        yield f"The confidence interval is wide for {listed(wide)}: search longer (--time) or on a quieter machine."
    for skipped in left_out:
        name = in_brief(skipped.server, skipped.server, skipped.title)
        yield f"Not tested: {name}: {skipped.reason}."


def _remarks(capacity: Capacity) -> Iterator[str]:
    """Yield remarks about a server, each of which continues a sentence that begins with the server's name."""
    if capacity.verdict == FAILED:
        yield f": search failed: {capacity.failure}"
        return
    if capacity.is_none:
        first = capacity.steps[0]
        values = [_missed(first, goal).partition(" at ")[0] for goal in capacity.missed_at(first)]
        yield f": no rate meets the goals; even at {per_s(first.per_s)}, {' and '.join(values)}"
    elif capacity.lower_per_s is None:
        yield f" misses a goal at {per_s(capacity.upper_per_s)}, and no lower rate was offered"
    elif capacity.upper_per_s is None:
        yield f" meets every goal at every offered rate, up to {per_s(capacity.steps[-1].per_s)}"
    for name in ("limited", "wrong"):
        if step := next((step for step in capacity.steps if step.shares(math.inf)[name]), None):
            share = _share(step.shares(math.inf)[name])
            yield f": {share} of the requests were {OUTCOMES[name]} at {per_s(step.per_s)}"
    if capacity.limited:
        yield (
            f": at {per_s(capacity.limited.per_s)}, the load generator was the limit and sent requests "
            f"{formatting.seconds(capacity.limited.late_s)} late (p99). This step and higher rates are ignored"
        )


def _interval(capacity: Capacity) -> str:
    """Return a phrase such as `sustains 15.2 requests/s (95 % CI 14.1–16.3)`."""  # noqa: RUF002
    lower, upper = capacity.lower_per_s, capacity.upper_per_s
    if capacity.per_s is None or lower is None or upper is None:
        return f"sustains at least {significant(lower or 0.0)} requests/s"
    bounds = f"{significant(lower)}{TO}{significant(upper)}"
    return f"sustains {significant(capacity.per_s)} requests/s (95 % CI {bounds})"


def in_one_sentence(capacity: Capacity) -> str:
    """Describe a capacity in a sentence, which is used as the alternative text of a chart."""
    name = with_capital(in_brief(capacity.case.server, capacity.case.server, capacity.title), capacity.case.server)
    return f"{name} {_interval(capacity)}." if capacity.lower_per_s else "".join([name, *_remarks(capacity), "."])


def footnote(result: Result, capacities: Sequence[Capacity]) -> str:
    count = sum(len(capacity.steps) for capacity in capacities)
    return (
        "sustained: highest rate that meets all goals · lower, upper: its 95 % interval\n"
        "p99, ping p99, CPU, memory: of the step that met all goals and is nearest to the lower bound\n"
        "latency counts from when a request was due; it is infinite if the request was refused, lost or answered "
        "wrongly\n"
        f"Poisson arrivals · {cores(result)} · Python {', '.join(result.environment.pythons)} · {count} "
        f"step{'s' if count != 1 else ''} · seed {result.seed}"
    )


def as_table(result: Result) -> RenderableType:
    """Return the conclusion, a table of the servers' capacities, and a table of their steps."""
    capacities = capacities_of(result)
    sentences = (Text(f"{sentence}\n") for sentence in conclusion(capacities, result.left_out))
    note = Text(f"\n{footnote(result, capacities)}", style="dim")
    return Group(*sentences, _grid(capacities), Text(), _step_grid(capacities), note)


def as_markdown(result: Result) -> str:
    """Return the conclusion and a table of the servers' capacities as Markdown."""
    capacities = capacities_of(result)
    sentences = map(plain, conclusion(capacities, result.left_out))
    note = small_print(footnote(result, capacities).splitlines())
    return "\n\n".join([*sentences, _grid(capacities).as_markdown(), note])


def _grid(capacities: Sequence[Capacity]) -> Grid:
    rows = [list(map(TableCell, [each.name, *cells(each.capacity)])) for each in named(capacities)]
    return Grid(["server"], list(map(Heading, COLUMNS)), rows, gap=2)


def _step_grid(capacities: Sequence[Capacity]) -> Grid:
    """Return a row for each step, in red if it missed a goal."""
    rows = [
        [TableCell("" if index else each.name), *(TableCell(text, style) for text in _step_cells(each.capacity, step))]
        for each in named(capacities)
        for index, step in enumerate(each.capacity.steps)
        for style in ["red" if each.capacity.missed_at(step) else ""]
    ]
    return Grid(["server"], list(map(Heading, STEP_COLUMNS)), rows, gap=2)


def _step_cells(capacity: Capacity, step: StepMetrics) -> list[str]:
    shares = step.shares(capacity.in_time_s).items()
    missed = [f"{_share(share)} {OUTCOMES.get(name, name)}" for name, share in shares if share]
    times = [_time_of(step, "response"), _time_of(step, "ping")]
    return [per_s(step.per_s), *times, per_s(step.good_per_s(capacity.in_time_s)), ", ".join(missed) or NONE]


def _finite(value: float | None) -> float | None:
    return None if value is None or value == math.inf else value


_FIGURES: dict[str, Callable[[Capacity, StepMetrics], float | None]] = {
    "offered_per_s": lambda _, step: step.per_s,
    "p50_s": lambda _, step: _finite(step.percentile_s("response", 50)),
    "p99_s": lambda _, step: _finite(step.percentile_s("response", 99)),
    "ping_p50_s": lambda _, step: _finite(step.percentile_s("ping", 50)),
    "ping_p99_s": lambda _, step: _finite(step.percentile_s("ping", 99)),
    "good_per_s": lambda capacity, step: step.good_per_s(capacity.in_time_s),
    "cpu_s_per_transaction": lambda _, step: step.cpu_s,
    "memory_bytes": lambda _, step: step.memory_bytes,
}


def as_csv(result: Result) -> str:
    """Return a CSV line for each step of each server, with empty fields for unknown and infinite values."""
    rows = (
        [name, *(figure(capacity, step) for figure in _FIGURES.values()), "; ".join(_texts(capacity.missed_at(step)))]
        for capacity, name, _, _ in named(capacities_of(result))
        for step in capacity.steps
    )
    return rows_as_csv(["server", *_FIGURES, "missed"], rows)


def _step(capacity: Capacity, step: StepMetrics) -> dict[str, Any]:
    figures, missed = {name: figure(capacity, step) for name, figure in _FIGURES.items()}, capacity.missed_at(step)
    shares = step.shares(capacity.in_time_s)
    return {**figures, "requests": len(step.waits_s), "shares": shares, "missed": _texts(missed)}


def _texts(goals: Sequence[Goal]) -> list[str]:
    return [goal.text for goal in goals]


def as_data(result: Result) -> list[dict[str, Any]]:
    """Return a JSON object for each server and task. Don't rename the keys, because programs read them."""
    return list(map(_case, capacities_of(result)))


def _case(capacity: Capacity) -> dict[str, Any]:
    nearest = capacity.nearest_step
    return {
        "server": capacity.case.server,
        "title": capacity.title,
        "task": capacity.case.task,
        "workers": next((step.record.workers for step in capacity.steps if step.record.workers), None),
        "python": capacity.case.python,
        "parameters": capacity.case.parameters,
        "verdict": capacity.verdict,
        "reasons": [{"code": "failed", "message": capacity.failure}] if capacity.failure else [],
        "capacity_per_s": {"holds": capacity.lower_per_s, "fails": capacity.upper_per_s},
        "estimate_per_s": capacity.per_s,
        "saturation_per_s": capacity.saturation_per_s,
        "goals": _texts(capacity.goals),
        "breaks_first": capacity.breaks.text if capacity.breaks else None,
        "ceiling_per_s": capacity.ceiling_per_s,
        "of_ceiling": capacity.of_ceiling,
        "response_s": {"p99": _finite(nearest.percentile_s("response", 99)) if nearest else None},
        "ping_s": {"p99": _finite(nearest.percentile_s("ping", 99)) if nearest else None},
        "cpu_s_per_transaction": nearest.cpu_s if nearest else None,
        "memory_bytes": nearest.memory_bytes if nearest else None,
        "steps": [_step(capacity, step) for step in capacity.steps],
    }
