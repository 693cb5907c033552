"""Show capacities as sentences, as a table with small curves, as Markdown, as CSV and as JSON data."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.capacity.capacity_result import FAILED, UNDECIDED, Capacity, capacities_of
from under_siege.capacity.step_metrics import LATE_S, MUCH_BY_OTHERS, StepMetrics
from under_siege.formatting import capitalized, listed, significant
from under_siege.model.record import Result, SkippedServer
from under_siege.model.threshold import Goal
from under_siege.report import grid
from under_siege.report.grid import Grid, Heading, TableCell, plain, small_print
from under_siege.report.labels import in_brief, in_plain_words, in_words, name_of, varying, with_capital

COLUMNS = (
    *("sustained", "lower", "upper", "of ceiling", "p99", "ping p99"),
    *("breaks first", "CPU per answer", "memory"),
)
NONE = TO = "–"  # noqa: RUF001 (an en dash, as in a table)
LARGE_GAIN = 1.03  # ratio of the estimate at constant speed to the estimate; a smaller gain is not mentioned
_BLOCKS = "▁▂▃▄▅▆▇█"
_GAP, _CELL = 2, 9  # columns; the gap between two cells, and the width of a cell
_TALLEST_S, _LOWEST_S = 10.0, 0.001  # range of a curve, on a logarithmic scale


def names_of(capacities: Sequence[Capacity]) -> list[str]:
    """Return for each capacity a name that distinguishes it from the others."""
    cases = [capacity.case for capacity in capacities]
    axes = [name for name in varying(cases) if name in ("task", "path")]
    suffixes = [in_words(case, axes) for case in cases]
    return [
        name_of(case, cases) + (f" ({suffix})" if suffix else "") for case, suffix in zip(cases, suffixes, strict=True)
    ]


def plain_names_of(capacities: Sequence[Capacity]) -> list[str]:
    return [
        f"{in_plain_words(capacity.case.server, capacity.title)}{name.removeprefix(capacity.case.server)}"
        for capacity, name in zip(capacities, names_of(capacities), strict=True)
    ]


def brief_names_of(capacities: Sequence[Capacity]) -> list[str]:
    named = zip(names_of(capacities), capacities, strict=True)
    return [in_brief(name, capacity.case.server, capacity.title) for name, capacity in named]


def headline(capacities: Sequence[Capacity]) -> str:
    named = zip(capacities, plain_names_of(capacities), strict=True)
    able = [(capacity.lower_per_s, capacity, name) for capacity, name in named if capacity.lower_per_s]
    if not able:
        return "No server meets all goals at any offered rate"
    most, best, name = max(able, key=lambda item: item[0])
    others = [
        other for _, capacity, other in able if capacity is not best and (capacity.upper_per_s or math.inf) > most
    ]
    comparison = f"; not significantly different: {listed(others)}" if others else ", more than any other"
    return f"{capitalized(name)} {_interval(best)}{comparison}"


def per_s(value: float | None) -> str:
    """Return `41.3/s`."""
    return NONE if value is None else f"{significant(value)}/s"


def time_of(value: float | None) -> str:
    """Return `37 ms`; `refused or lost` if the time is infinite."""
    if value is None:
        return NONE
    return "refused or lost" if value == math.inf else formatting.seconds(value)


def cells(capacity: Capacity) -> list[str]:
    """Return the cells of a row, in the order of `COLUMNS`."""
    if capacity.verdict == FAILED:
        return ["failed", *[""] * (len(COLUMNS) - 1)]
    nearest = capacity.nearest_step
    return [
        per_s(capacity.per_s) if capacity.per_s else "none" if capacity.is_none else NONE,
        per_s(capacity.lower_per_s),
        per_s(capacity.upper_per_s),
        formatting.share(capacity.of_ceiling) if capacity.of_ceiling else NONE,
        time_of(nearest.percentile_s("response", 99)) if nearest else NONE,
        time_of(nearest.percentile_s("ping", 99)) if nearest else NONE,
        _first_missed_goal(capacity),
        formatting.seconds(nearest.cpu_s) if nearest and nearest.cpu_s else NONE,
        formatting.megabytes(nearest.memory_bytes) if nearest and nearest.memory_bytes else NONE,
    ]


def _first_missed_goal(capacity: Capacity) -> str:
    """Return the goal that is missed first, and its value at the lowest rate that missed it."""
    if capacity.breaks is None:
        return "nothing"
    step = _first_missed_step(capacity, capacity.breaks)
    value = f": {goal_value(step, capacity.breaks)} at {per_s(step.per_s)}" if step else ""
    return f"{_metric_name(capacity.breaks)}{value}"


def _first_missed_step(capacity: Capacity, goal: Goal) -> StepMetrics | None:
    """Return the step with the lowest rate that missed the goal, if possible above the lower bound."""
    missed = [step for step in capacity.steps if goal in capacity.missed_at(step)]
    beyond = [step for step in missed if not capacity.lower_per_s or step.per_s >= capacity.lower_per_s]
    return min(beyond or missed, key=lambda step: step.per_s, default=None)


def _metric_name(goal: Goal) -> str:
    return goal.text.partition(goal.operator)[0].strip()


def goal_value(step: StepMetrics, goal: Goal) -> str:
    """Return the metric of a goal in a step, with its unit."""
    value = step.value(goal)
    if value is None:
        return NONE
    if goal.figure == "availability_pct":
        return formatting.percent(value)
    if goal.figure == "memory_bytes":
        return formatting.megabytes(value)
    prefix = "more than " if step.step.broke and value != math.inf else ""
    return prefix + time_of(value)


def conclusion(capacities: Sequence[Capacity], left_out: Sequence[SkippedServer] = ()) -> Iterator[str]:
    """Yield the best server, the servers that meet their goals at no rate, and limitations of the measurement."""
    names = dict(zip(map(id, capacities), brief_names_of(capacities), strict=True))
    able = [capacity for capacity in capacities if capacity.lower_per_s]
    able.sort(key=lambda capacity: capacity.per_s or capacity.lower_per_s or 0.0, reverse=True)
    if able:
        yield _best_sentence(able, names)
    for capacity in capacities:
        yield from _remarks(capacity, with_capital(names[id(capacity)], capacity.case.server))
    yield from _disturbances(capacities)
    wide = [capacity for capacity in capacities if capacity.verdict == UNDECIDED and capacity.lower_per_s]
    if undecided := [names[id(capacity)] for capacity in wide]:
        yield f"The interval is wide for {listed(undecided)}: search longer (--time 3m) or on a quieter machine."
    for skipped in left_out:
        name = in_brief(skipped.server, skipped.server, skipped.title)
        yield f"Not tested: {name}, because it {skipped.reason}."


def _remarks(capacity: Capacity, name: str) -> Iterator[str]:
    if capacity.verdict == FAILED:
        yield f"{name}: search failed: {capacity.failure}."
        return
    if capacity.is_none:
        yield f"{name}: no rate meets the goals; {_why_none(capacity)}."
    elif capacity.lower_per_s is None:
        yield f"{name} misses a goal at {per_s(capacity.upper_per_s)}, and no lower offered rate meets all goals."
    elif capacity.upper_per_s is None:
        yield f"{name} meets every goal at every offered rate, up to {_highest_rate(capacity)}."
    if capacity.per_s and capacity.steady_per_s and capacity.steady_per_s > LARGE_GAIN * capacity.per_s:
        steady, measured = per_s(capacity.steady_per_s), per_s(capacity.per_s)
        yield f"{name}: on a machine of constant speed, {steady} instead of {measured}."
    if capacity.limited:
        yield _limit(capacity, name)


def _disturbances(capacities: Sequence[Capacity]) -> Iterator[str]:
    late_s = max((step.late_s for capacity in capacities for step in capacity.steps), default=0.0)
    if late_s > LATE_S:
        yield (
            f"The load generator was up to {formatting.seconds(late_s)} late (p99 of a step). "
            "Latency includes this, because it counts from when a request was due."
        )
    most = max((step.by_others for capacity in capacities for step in capacity.steps), default=0.0)
    if most > MUCH_BY_OTHERS:
        yield f"Other programs used up to {formatting.share(most)} of the CPUs during a step: use a quieter machine."


def _best_sentence(able: Sequence[Capacity], names: dict[int, str]) -> str:
    """Return a sentence about the server with the highest rate, and those whose intervals overlap with it."""
    best, *others = able
    overlapping = [names[id(each)] for each in others if (each.upper_per_s or math.inf) >= (best.lower_per_s or 0.0)]
    share = f", {formatting.share(best.of_ceiling)} of the ceiling" if best.of_ceiling else ""
    goals = " and ".join(dict.fromkeys(goal.text for goal in best.goals))
    comparison = f"; not significantly different: {listed(overlapping)}" if overlapping else ""
    return f"With {goals}, {names[id(best)]} {_interval(best)}{share}{comparison}."


def _interval(capacity: Capacity) -> str:
    """Return `sustains 15.2 requests/s (95 % CI 14.1–16.3)`."""  # noqa: RUF002
    lower, upper = capacity.lower_per_s, capacity.upper_per_s
    if capacity.per_s is None or lower is None or upper is None:
        return f"sustains at least {_number(lower)} requests/s"
    return f"sustains {_number(capacity.per_s)} requests/s (95 % CI {_number(lower)}{TO}{_number(upper)})"


def _number(value: float | None) -> str:
    return NONE if value is None else significant(value)


def in_one_sentence(capacity: Capacity) -> str:
    """Return the text alternative of a picture."""
    name = with_capital(in_brief(capacity.case.server, capacity.case.server, capacity.title), capacity.case.server)
    if capacity.verdict == FAILED:
        return f"{name}: search failed."
    if capacity.lower_per_s:
        return f"{name} {_interval(capacity)}."
    return f"{name} meets the goals at no rate; {_why_none(capacity)}."


def _why_none(capacity: Capacity) -> str:
    """Return `even at 1/s ping p99 is 80 ms`."""
    lowest = min(capacity.steps, key=lambda step: step.per_s, default=None)
    missed = capacity.missed_at(lowest) if lowest else []
    if lowest is None or not missed:
        return f"the upper bound is {per_s(capacity.upper_per_s)}"
    values = " and ".join(f"{_metric_name(goal)} is {goal_value(lowest, goal)}" for goal in missed)
    return f"even at {per_s(lowest.per_s)} {values}"


def _highest_rate(capacity: Capacity) -> str:
    highest = per_s(max(step.per_s for step in capacity.steps))
    if capacity.ceiling_per_s and capacity.most_per_s >= capacity.ceiling_per_s * 0.99:
        return f"{highest}; the ceiling is {per_s(capacity.ceiling_per_s)}"
    return highest


def _limit(capacity: Capacity, name: str) -> str:
    assert capacity.limited is not None
    awake = capacity.limited.step.generator_awake
    busy = f" and it was busy for {formatting.share(awake)} of the time" if awake else ""
    late = formatting.seconds(capacity.limited.late_s)
    return (
        f"{name}: the load generator was the limit at {per_s(capacity.limited.per_s)}: its requests were "
        f"{late} late (p99){busy}. This step and higher rates are not counted."
    )


def footnote(result: Result, capacities: Sequence[Capacity]) -> str:
    machine = result.environment
    count = sum(len(capacity.steps) for capacity in capacities)
    steps = f"{count} step{'s' if count != 1 else ''}"
    return (
        "Poisson arrivals; latency counts from when a request was due; it is infinite if the request was refused, lost "
        "or answered wrongly · sustained (lower, upper): the highest rate that meets all goals, with its 95 % "
        "confidence interval, speed-adjusted · p99, ping p99, CPU, memory: from the step nearest to the sustained "
        "rate, of those that met all goals\n"
        f"{machine.usable_cpus} CPUs · Python {', '.join(machine.pythons)} · {steps} · seed {result.seed}"
    )


def as_table(result: Result) -> RenderableType:
    """Return the conclusion, the capacity of each server, and a curve for each."""
    capacities = capacities_of(result)
    sentences = (Text(f"{sentence}\n") for sentence in conclusion(capacities, result.left_out))
    return Group(
        *sentences,
        _grid(capacities),
        Text(),
        _Curves(capacities),
        Text(f"\n{footnote(result, capacities)}", style="dim"),
    )


def as_markdown(result: Result) -> str:
    """Return the same as Markdown, without the curves."""
    capacities = capacities_of(result)
    sentences = map(plain, conclusion(capacities, result.left_out))
    return "\n\n".join(
        [*sentences, _grid(capacities).as_markdown(), small_print(footnote(result, capacities).splitlines())]
    )


def _grid(capacities: Sequence[Capacity]) -> Grid:
    rows = [
        list(map(TableCell, [name, *cells(capacity)]))
        for name, capacity in zip(names_of(capacities), capacities, strict=True)
    ]
    return Grid(["server"], list(map(Heading, COLUMNS)), rows, gap=2)


class _Curves:
    """For each server, its latency at each offered rate as small bars; missed goals are red.

    The rates of a server are wrapped if the terminal is too narrow.
    """

    def __init__(self, capacities: Sequence[Capacity]) -> None:
        named = zip(names_of(capacities), capacities, strict=True)
        self._rows = [(name, capacity) for name, capacity in named if capacity.steps]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
        for _ in range(2):
            table.add_column(no_wrap=True)
        names = max((Text(name).cell_len for name, _ in self._rows), default=0)
        per_line = max(1, (options.max_width - names - _GAP) // _CELL - 1)  # the first cell is a label
        for name, capacity in self._rows:
            for first in range(0, len(capacity.steps), per_line):
                for index, (label, text) in enumerate(_lines(capacity, capacity.steps[first : first + per_line])):
                    table.add_row(Text(name if not index and not first else ""), Text(f"{label:<{_CELL}}") + text)
        yield table


def _lines(capacity: Capacity, steps: Sequence[StepMetrics]) -> Iterator[tuple[str, Text]]:
    yield "offered", Text("".join(per_s(step.per_s).rjust(_CELL) for step in steps))
    for label, kind in (("p99", "response"), ("ping p99", "ping")):
        limits = [goal.limit for goal in capacity.goals if goal.figure == f"{kind}_p99_s"]
        line = Text()
        for step in steps:
            value = step.percentile_s(kind, 99)
            missed = value is not None and any(value >= limit for limit in limits)
            line.append(f" {_short(value)}{_block(value)}".rjust(_CELL), style="red" if missed else "")
        yield label, line
    yield "goodput", Text("".join(per_s(step.good_per_s(capacity.in_time_s)).rjust(_CELL) for step in steps))


def _short(value: float | None) -> str:
    return "lost" if value == math.inf else time_of(value).replace(" ", "")


def _block(value: float | None) -> str:
    if value is None:
        return " "
    share = math.log(min(max(value, _LOWEST_S), _TALLEST_S) / _LOWEST_S) / math.log(_TALLEST_S / _LOWEST_S)
    return _BLOCKS[min(len(_BLOCKS) - 1, int(share * len(_BLOCKS)))]


_STEP_COLUMNS = (
    *("offered_per_s", "p50_s", "p99_s", "ping_p50_s", "ping_p99_s"),
    *("good_per_s", "cpu_s_per_transaction", "memory_bytes"),
)


def as_csv(result: Result) -> str:
    """Return a line for each step of each server; unknown and infinite values are empty."""
    capacities = capacities_of(result)
    rows = (
        [name, *(step[column] for column in _STEP_COLUMNS), "; ".join(step["missed"])]
        for name, capacity in zip(names_of(capacities), capacities, strict=True)
        for step in _steps(capacity)
    )
    return grid.as_csv(["server", *_STEP_COLUMNS, "missed"], rows)


def _steps(capacity: Capacity) -> Iterator[dict[str, Any]]:
    for step in capacity.steps:
        times = {
            f"{prefix}p{percent}_s": _finite(step.percentile_s(kind, percent))
            for kind, prefix in (("response", ""), ("ping", "ping_"))
            for percent in (50, 99)
        }
        yield {
            "offered_per_s": step.per_s,
            **times,
            "good_per_s": step.good_per_s(capacity.in_time_s),
            "cpu_s_per_transaction": step.cpu_s,
            "memory_bytes": step.memory_bytes,
            "requests": len(step.waits_s),
            "missed": [goal.text for goal in capacity.missed_at(step)],
        }


def _finite(value: float | None) -> float | None:
    return None if value is None or value == math.inf else value


def as_data(result: Result) -> list[dict[str, Any]]:
    """Return an object for each server and task; the keys are a contract."""
    return [_case(capacity) for capacity in capacities_of(result)]


def _case(capacity: Capacity) -> dict[str, Any]:
    nearest = capacity.nearest_step
    workers = next((step.record.workers for step in capacity.steps if step.record.workers), None)
    return {
        "server": capacity.case.server,
        "title": capacity.title,
        "task": capacity.case.task,
        "workers": workers,
        "python": capacity.case.python,
        "parameters": capacity.case.parameters,
        "verdict": capacity.verdict,
        "reasons": [{"code": "failed", "message": capacity.failure}] if capacity.failure else [],
        "capacity_per_s": {"holds": capacity.lower_per_s, "fails": capacity.upper_per_s},
        "goals": [goal.text for goal in capacity.goals],
        "breaks_first": capacity.breaks.text if capacity.breaks else None,
        "ceiling_per_s": capacity.ceiling_per_s,
        "of_ceiling": capacity.of_ceiling,
        "response_s": {"p99": _finite(nearest.percentile_s("response", 99)) if nearest else None},
        "ping_s": {"p99": _finite(nearest.percentile_s("ping", 99)) if nearest else None},
        "cpu_s_per_transaction": nearest.cpu_s if nearest else None,
        "memory_bytes": nearest.memory_bytes if nearest else None,
        "steps": list(_steps(capacity)),
    }
