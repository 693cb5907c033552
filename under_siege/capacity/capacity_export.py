"""Show a capacity as text, as a table with small curves for a terminal, as Markdown, as CSV and as data."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.capacity.capacity_result import FAILED, UNDECIDED, Capacity, capacities
from under_siege.capacity.step_metrics import LATE_S, MUCH_BY_OTHERS, Offered
from under_siege.formatting import capitalized, listed, significant
from under_siege.model.record import LeftOut, Result
from under_siege.model.threshold import Goal
from under_siege.report import grid
from under_siege.report.grid import Grid, Heading, TableCell, plain, small_print
from under_siege.report.labels import in_brief, in_plain_words, in_words, name_of, varying, with_capital

COLUMNS = (
    *("sustained", "lower", "upper", "of ceiling", "p99", "ping p99"),
    *("breaks first", "CPU per answer", "memory"),
)
NONE = TO = "–"  # noqa: RUF001 (an en dash, as in a table)
WORTH_SAYING = 1.03  # gain from a constant speed that is worth a line
_BLOCKS = "▁▂▃▄▅▆▇█"
_GAP, _CELL = 2, 9  # columns between two cells, and of a cell
_TALLEST_S, _LOWEST_S = 10.0, 0.001  # the range of a curve; each block is a step of the logarithm


def names_of(found: Sequence[Capacity]) -> list[str]:
    """Return what each is called beside the others."""
    cases = [one.case for one in found]
    tasks = [name for name in varying(cases) if name in ("task", "path")]
    return [name_of(one.case, cases) + (f" ({told})" if (told := in_words(one.case, tasks)) else "") for one in found]


def plain_names_of(found: Sequence[Capacity]) -> list[str]:
    return [
        f"{in_plain_words(one.case.server, one.title)}{name.removeprefix(one.case.server)}"
        for one, name in zip(found, names_of(found), strict=True)
    ]


def brief_names_of(found: Sequence[Capacity]) -> list[str]:
    return [in_brief(name, one.case.server, one.title) for name, one in zip(names_of(found), found, strict=True)]


def headline(found: Sequence[Capacity]) -> str:
    able = [(one.holds, one, name) for one, name in zip(found, plain_names_of(found), strict=True) if one.holds]
    if not able:
        return "No server meets all goals at any rate that was offered"
    most, best, name = max(able, key=lambda of_one: of_one[0])
    others = [told for _, one, told in able if one is not best and (one.fails is None or one.fails > most)]
    as_much = f"; not significantly different: {listed(others)}" if others else ", more than any other"
    return f"{capitalized(name)} {_interval(best)}{as_much}"


def per_s(value: float | None) -> str:
    """`41.3/s`."""
    return NONE if value is None else f"{significant(value)}/s"


def time_of(value: float | None) -> str:
    """`37 ms`; infinite where answers were refused, wrong or lost."""
    if value is None:
        return NONE
    return "refused or lost" if value == math.inf else formatting.seconds(value)


def cells(one: Capacity) -> list[str]:
    """Return its figures, as `COLUMNS` has them."""
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
    """Return the goal, and what it was at the lowest rate at which it was missed."""
    if one.breaks is None:
        return "nothing"
    beyond = _first_missed(one, one.breaks)
    seen = f": {told(beyond, one.breaks)} at {per_s(beyond.per_s)}" if beyond else ""
    return f"{_figure(one.breaks)}{seen}"


def _first_missed(one: Capacity, goal: Goal) -> Offered | None:
    """Return the lowest rate at which it was missed, of those beyond the one that holds."""
    missed = [step for step in one.steps if goal in one.missed_at(step)]
    beyond = [step for step in missed if not one.holds or step.per_s >= one.holds]
    return min(beyond or missed, key=lambda step: step.per_s, default=None)


def _figure(goal: Goal) -> str:
    return goal.text.partition(goal.operator)[0].strip()


def told(one: Offered, goal: Goal) -> str:
    """Return the figure of a goal in a step, with its unit."""
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
        yield f"The interval is wide for {listed(undecided)}: search longer (--time 3m) or on a quieter machine."
    for lacking in left_out:
        name = in_brief(lacking.server, lacking.server, lacking.title)
        yield f"Not tested: {name}, because it {lacking.reason}."


def _of_one(one: Capacity, name: str) -> Iterator[str]:
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
    beside = f"; not significantly different: {listed([names[id(one)] for one in alike[1:]])}" if alike[1:] else ""
    return f"With {goals}, {names[id(best)]} {_interval(best)}{share}{beside}."


def _interval(one: Capacity) -> str:
    """`holds 15.2 requests/s (95 % CI 14.1–16.3)`."""  # noqa: RUF002
    if one.per_s is None or one.holds is None or one.fails is None:
        return f"holds at least {_number(one.holds)} requests/s"
    return f"holds {_number(one.per_s)} requests/s (95 % CI {_number(one.holds)}{TO}{_number(one.fails)})"


def _number(value: float | None) -> str:
    return NONE if value is None else significant(value)


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
    assert one.limited is not None
    awake = one.limited.step.generator_awake
    busy = f" and it was busy for {formatting.share(awake)} of the time" if awake else ""
    late = formatting.seconds(one.limited.late_s)
    return (
        f"{name}: the load generator was the limit at {per_s(one.limited.per_s)}: its requests were "
        f"{late} late (p99){busy}. This step and higher rates are not counted."
    )


def footnote(result: Result, found: Sequence[Capacity]) -> str:
    machine = result.environment
    count = sum(len(one.steps) for one in found)
    steps = f"{count} step{'s' if count != 1 else ''}"
    return (
        "Poisson arrivals; latency counts from when a request was due; refused, wrong and lost answers never arrived · "
        "sustained (lower, upper): the highest rate that meets all goals, with its 95 % confidence interval, "
        "speed-adjusted · p99, ping p99, CPU, memory: of the step nearest to that rate which met the goals\n"
        f"{machine.usable_cpus} CPUs · Python {', '.join(machine.pythons)} · {steps} · seed {result.seed}"
    )


def as_table(result: Result) -> RenderableType:
    """Return the conclusion, what each server can take, and the curves that led to it."""
    found = capacities(result)
    sentences = (Text(f"{sentence}\n") for sentence in conclusion(found, result.left_out))
    return Group(*sentences, _grid(found), Text(), _Curves(found), Text(f"\n{footnote(result, found)}", style="dim"))


def as_markdown(result: Result) -> str:
    """Return the same as Markdown, without the curves."""
    found = capacities(result)
    sentences = map(plain, conclusion(found, result.left_out))
    return "\n\n".join([*sentences, _grid(found).as_markdown(), small_print(footnote(result, found).splitlines())])


def _grid(found: Sequence[Capacity]) -> Grid:
    rows = [list(map(TableCell, [name, *cells(one)])) for name, one in zip(names_of(found), found, strict=True)]
    return Grid(["server"], list(map(Heading, COLUMNS)), rows, gap=2)


class _Curves:
    """A row for each server: rates from left to right, the taller the longer; what misses its goal is marked.

    Several rows where the terminal is too narrow for all rates.
    """

    def __init__(self, found: Sequence[Capacity]) -> None:
        self._rows = [(name, one) for name, one in zip(names_of(found), found, strict=True) if one.steps]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
        for _ in range(2):
            table.add_column(no_wrap=True)
        names = max((Text(name).cell_len for name, _ in self._rows), default=0)
        at_once = max(1, (options.max_width - names - _GAP) // _CELL - 1)  # the first cell says what it is
        for name, one in self._rows:
            for first in range(0, len(one.steps), at_once):
                for place, (what, text) in enumerate(_lines(one, one.steps[first : first + at_once])):
                    table.add_row(Text(name if not place and not first else ""), Text(f"{what:<{_CELL}}") + text)
        yield table


def _lines(one: Capacity, steps: Sequence[Offered]) -> Iterator[tuple[str, Text]]:
    yield "offered", Text("".join(per_s(step.per_s).rjust(_CELL) for step in steps))
    for what, kind in (("p99", "response"), ("ping p99", "ping")):
        limits = [goal.limit for goal in one.goals if goal.figure == f"{kind}_p99_s"]
        line = Text()
        for step in steps:
            value = step.percentile_s(kind, 99)
            missed = value is not None and any(value >= limit for limit in limits)
            line.append(f" {_short(value)}{_block(value)}".rjust(_CELL), style="red" if missed else "")
        yield what, line
    yield "goodput", Text("".join(per_s(step.good_per_s(one.in_time_s)).rjust(_CELL) for step in steps))


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
    """Return a line for each step of each server; what is unknown, or was never answered, is empty."""
    found = capacities(result)
    rows = (
        [name, *(step[column] for column in _STEP_COLUMNS), "; ".join(step["missed"])]
        for name, one in zip(names_of(found), found, strict=True)
        for step in _steps(one)
    )
    return grid.as_csv(["server", *_STEP_COLUMNS, "missed"], rows)


def _steps(one: Capacity) -> Iterator[dict[str, Any]]:
    for step in one.steps:
        times = {
            f"{prefix}p{percent}_s": _finite(step.percentile_s(kind, percent))
            for kind, prefix in (("response", ""), ("ping", "ping_"))
            for percent in (50, 99)
        }
        yield {
            "offered_per_s": step.per_s,
            **times,
            "good_per_s": step.good_per_s(one.in_time_s),
            "cpu_s_per_transaction": step.cpu_s,
            "memory_bytes": step.memory_bytes,
            "requests": len(step.waits_s),
            "missed": [goal.text for goal in one.missed_at(step)],
        }


def _finite(value: float | None) -> float | None:
    return None if value is None or value == math.inf else value


def as_data(result: Result) -> list[dict[str, Any]]:
    """Return an object for each server at each task; the keys are a contract."""
    return [_case(one) for one in capacities(result)]


def _case(one: Capacity) -> dict[str, Any]:
    at = one.at
    workers = next((step.record.workers for step in one.steps if step.record.workers), None)
    return {
        "server": one.case.server,
        "title": one.title,
        "task": one.case.task,
        "workers": workers,
        "python": one.case.python,
        "parameters": one.case.parameters,
        "verdict": one.verdict,
        "reasons": [{"code": "failed", "message": one.failure}] if one.failure else [],
        "capacity_per_s": {"holds": one.holds, "fails": one.fails},
        "goals": [goal.text for goal in one.goals],
        "breaks_first": one.breaks.text if one.breaks else None,
        "ceiling_per_s": one.ceiling_per_s,
        "of_ceiling": one.of_ceiling,
        "response_s": {"p99": _finite(at.percentile_s("response", 99)) if at else None},
        "ping_s": {"p99": _finite(at.percentile_s("ping", 99)) if at else None},
        "cpu_s_per_transaction": at.cpu_s if at else None,
        "memory_bytes": at.memory_bytes if at else None,
        "steps": list(_steps(one)),
    }
