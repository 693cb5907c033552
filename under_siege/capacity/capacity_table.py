"""Format capacities as sentences, a table with small bar charts, Markdown, CSV and JSON data."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from under_siege import formatting
from under_siege.capacity.capacity_estimate import FAILED, UNDECIDED, Capacity, capacities_of
from under_siege.capacity.step_metrics import LATE_S, MUCH_BY_OTHERS, StepMetrics
from under_siege.formatting import capitalized, listed, significant
from under_siege.model.record import Result, SkippedServer
from under_siege.model.requirement import Goal
from under_siege.report.case_names import in_brief, in_plain_words, in_words, name_of, varying, with_capital
from under_siege.report.notes import cores
from under_siege.report.text_tables import Grid, Heading, TableCell, plain, rows_as_csv, small_print

COLUMNS = (
    *("sustained", "lower", "upper", "of ceiling", "p99", "ping p99"),
    *("first goal missed", "CPU per response", "memory"),
)
NONE = TO = "–"  # noqa: RUF001 (an en dash, as in a table)
LARGE_GAIN = 1.03  # a remark mentions the estimate at constant CPU speed if it exceeds the actual one by this factor
_BLOCKS = "▁▂▃▄▅▆▇█"
_GAP, _CELL = 2, 9  # gap after the names, and width of a cell, in columns
_TALLEST_S, _LOWEST_S = 10.0, 0.001  # latencies of the tallest and the lowest bar, on a logarithmic scale


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
    pairs = []
    for capacity in capacities:
        server, title, suffix = capacity.case.server, capacity.title, in_words(capacity.case, axes)
        name = name_of(capacity.case, cases) + (f" ({suffix})" if suffix else "")
        plain_name = in_plain_words(server, title) + name.removeprefix(server)
        pairs.append(NamedCapacity(capacity, name, plain_name, in_brief(name, server, title)))
    return pairs


def _best(several: Sequence[NamedCapacity]) -> tuple[NamedCapacity | None, list[NamedCapacity]]:
    """Return the highest capacity (None if there is none) and all others whose intervals overlap with its interval."""
    able = [each for each in several if each.capacity.lower_per_s]
    if not able:
        return None, []
    able.sort(key=lambda each: each.capacity.per_s or each.capacity.lower_per_s or 0.0, reverse=True)
    least = able[0].capacity.lower_per_s or 0.0
    return able[0], [each for each in able[1:] if (each.capacity.upper_per_s or math.inf) >= least]


def headline(capacities: Sequence[Capacity]) -> str:
    best, others = _best(named(capacities))
    if best is None:
        return "No server meets all goals at any offered rate"
    compared = ", more than any other" if len(capacities) > 1 else ""
    if others:
        compared = f"; not significantly different: {listed([other.plain for other in others])}"
    return f"{capitalized(best.plain)} {_interval(best.capacity)}{compared}"


def per_s(value: float | None) -> str:
    """Format a rate, such as `41.3/s`, or return a dash if it is None."""
    return NONE if value is None else f"{significant(value)}/s"


def time_of(value: float | None) -> str:
    """Format a time, such as `37 ms`; return a dash if it is None, and `refused or lost` if it is infinite."""
    if value is None:
        return NONE
    return "refused or lost" if value == math.inf else formatting.seconds(value)


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
        time_of(nearest.percentile_s("response", 99)) if nearest else NONE,
        time_of(nearest.percentile_s("ping", 99)) if nearest else NONE,
        _first_missed_goal(capacity),
        formatting.seconds(nearest.cpu_s) if nearest and nearest.cpu_s else NONE,
        formatting.megabytes(nearest.memory_bytes) if nearest and nearest.memory_bytes else NONE,
    ]


def _first_missed_goal(capacity: Capacity) -> str:
    """Return the first metric to miss a goal, and its value at the lowest rate in or above the interval to miss it."""
    goal = capacity.breaks
    if goal is None:
        return "none"
    missed = [step for step in capacity.steps if goal in capacity.missed_at(step)]
    beyond = [step for step in missed if step.per_s >= (capacity.lower_per_s or 0.0)]
    value = "".join(f": {_goal_value(step, goal)} at {per_s(step.per_s)}" for step in (beyond or missed)[:1])
    return f"{_metric_name(goal)}{value}"


def _metric_name(goal: Goal) -> str:
    return goal.text.partition(goal.operator)[0].strip()


def _goal_value(step: StepMetrics, goal: Goal) -> str:
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
    """Yield sentences about the best server, about problems of individual servers, and about the measurement."""
    several = named(capacities)
    best, others = _best(several)
    if best:
        of_ceiling = best.capacity.of_ceiling
        share = f", {formatting.share(of_ceiling)} of the ceiling" if of_ceiling else ""
        goals = " and ".join(dict.fromkeys(goal.text for goal in best.capacity.goals))
        not_different = f"; not significantly different: {listed([other.brief for other in others])}" if others else ""
        yield f"With {goals}, {best.brief} {_interval(best.capacity)}{share}{not_different}."
    for each in several:
        name = with_capital(each.brief, each.capacity.case.server)
        yield from (f"{name}{remark}." for remark in _remarks(each.capacity))
    yield from _disturbances(capacities)
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
        yield f": no rate meets the goals; {_why_none(capacity)}"
    elif capacity.lower_per_s is None and capacity.upper_per_s is None:
        yield ": the search found no limit; search longer (--time)"
    elif capacity.lower_per_s is None:
        yield f" misses a goal at {per_s(capacity.upper_per_s)}, and no lower rate was offered"
    elif capacity.upper_per_s is None:
        yield f" meets every goal at every offered rate, up to {per_s(capacity.steps[-1].per_s)}"
    if capacity.per_s and capacity.steady_per_s and capacity.steady_per_s > LARGE_GAIN * capacity.per_s:
        yield (
            f" would sustain {per_s(capacity.steady_per_s)} at a constant CPU speed, instead of {per_s(capacity.per_s)}"
        )
    if capacity.limited:
        yield (
            f": at {per_s(capacity.limited.per_s)}, the load generator was the limit and sent requests "
            f"{formatting.seconds(capacity.limited.late_s)} late (p99). This step and higher rates are ignored"
        )


def _disturbances(capacities: Sequence[Capacity]) -> Iterator[str]:
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
    if capacity.verdict == FAILED:
        return f"{name}: search failed."
    if capacity.lower_per_s:
        return f"{name} {_interval(capacity)}."
    if capacity.upper_per_s is None:
        return f"{name}: the search found no limit."
    return f"{name} meets the goals at none of the offered rates; {_why_none(capacity)}."


def _why_none(capacity: Capacity) -> str:
    """Return why no rate meets the goals, such as `even at 1/s, ping p99 is 80 ms`."""
    missed = capacity.missed_at(capacity.steps[0]) if capacity.steps else []
    if not missed:
        return f"the upper bound is {per_s(capacity.upper_per_s)}"
    values = " and ".join(f"{_metric_name(goal)} is {_goal_value(capacity.steps[0], goal)}" for goal in missed)
    return f"even at {per_s(capacity.steps[0].per_s)}, {values}"


def footnote(result: Result, capacities: Sequence[Capacity]) -> str:
    count = sum(len(capacity.steps) for capacity in capacities)
    steps = f"{count} step{'s' if count != 1 else ''}"
    return (
        "sustained: highest rate that meets all goals, adjusted for CPU speed · lower, upper: its 95 % interval\n"
        "p99, ping p99, CPU, memory: of the step that met all goals and is nearest to the lower bound\n"
        "latency counts from when a request was due; it is infinite if the request was refused, lost or answered "
        "wrongly\n"
        f"Poisson arrivals · {cores(result)} · Python {', '.join(result.environment.pythons)} · {steps} "
        f"· seed {result.seed}"
    )


def as_table(result: Result) -> RenderableType:
    """Return the conclusion, a table of the servers' capacities, and a bar chart for each server."""
    capacities = capacities_of(result)
    sentences = (Text(f"{sentence}\n") for sentence in conclusion(capacities, result.left_out))
    note = Text(f"\n{footnote(result, capacities)}", style="dim")
    return Group(*sentences, _grid(capacities), Text(), _Curves(capacities), note)


def as_markdown(result: Result) -> str:
    """Return the conclusion and a table of the servers' capacities as Markdown."""
    capacities = capacities_of(result)
    sentences = map(plain, conclusion(capacities, result.left_out))
    note = small_print(footnote(result, capacities).splitlines())
    return "\n\n".join([*sentences, _grid(capacities).as_markdown(), note])


def _grid(capacities: Sequence[Capacity]) -> Grid:
    rows = [list(map(TableCell, [each.name, *cells(each.capacity)])) for each in named(capacities)]
    return Grid(["server"], list(map(Heading, COLUMNS)), rows, gap=2)


class _Curves:
    """Small bars that show the latency of each server at each offered rate, in red if the latency misses a goal.

    If the terminal is too narrow for all rates of a server, they continue on the next lines.
    """

    def __init__(self, capacities: Sequence[Capacity]) -> None:
        self._named = [each for each in named(capacities) if each.capacity.steps]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        width = max((cell_len(each.name) for each in self._named), default=0) + _GAP
        per_line = max(1, (options.max_width - width) // _CELL - 1)  # the first cell is a label
        for each in self._named:
            for first in range(0, len(each.capacity.steps), per_line):
                lines = _lines(each.capacity, each.capacity.steps[first : first + per_line])
                for index, (label, line) in enumerate(lines):
                    name = set_cell_size("" if first or index else each.name, width)
                    yield Text(f"{name}{label:<{_CELL}}", no_wrap=True) + line


def _lines(capacity: Capacity, steps: Sequence[StepMetrics]) -> Iterator[tuple[str, Text]]:
    yield "offered", Text("".join(per_s(step.per_s).rjust(_CELL) for step in steps))
    for label, kind in (("p99", "response"), ("ping p99", "ping")):
        limit_s = min((goal.limit for goal in capacity.goals if goal.figure == f"{kind}_p99_s"), default=math.inf)
        values = [step.percentile_s(kind, 99) for step in steps]
        bars = [(f" {_short(value)}{_block(value)}".rjust(_CELL), value or 0.0) for value in values]
        yield label, Text.assemble(*((bar, "red" if value >= limit_s else "") for bar, value in bars))
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
    """Return a CSV line for each step of each server, with empty fields for unknown and infinite values."""
    rows = (
        [each.name, *(step[column] for column in _STEP_COLUMNS), "; ".join(step["missed"])]
        for each in named(capacities_of(result))
        for step in _steps(each.capacity)
    )
    return rows_as_csv(["server", *_STEP_COLUMNS, "missed"], rows)


def _steps(capacity: Capacity) -> Iterator[dict[str, Any]]:
    for step in capacity.steps:
        yield {
            "offered_per_s": step.per_s,
            "p50_s": _finite(step.percentile_s("response", 50)),
            "p99_s": _finite(step.percentile_s("response", 99)),
            "ping_p50_s": _finite(step.percentile_s("ping", 50)),
            "ping_p99_s": _finite(step.percentile_s("ping", 99)),
            "good_per_s": step.good_per_s(capacity.in_time_s),
            "cpu_s_per_transaction": step.cpu_s,
            "memory_bytes": step.memory_bytes,
            "requests": len(step.waits_s),
            "missed": [goal.text for goal in capacity.missed_at(step)],
        }


def _finite(value: float | None) -> float | None:
    return None if value is None or value == math.inf else value


def as_data(result: Result) -> list[dict[str, Any]]:
    """Return a JSON object for each server and task. Don't rename the keys, because programs read them."""
    return list(map(_case, capacities_of(result)))


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
