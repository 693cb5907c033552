"""Show capacities: the rate that each server sustains, its steps, and how latency grows with the rate."""

import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from under_siege import formatting
from under_siege.capacity.charts import capacity_chart, latency_chart
from under_siege.capacity.estimate import FAILED, UNDECIDED, Capacity, capacities_of, exit_code
from under_siege.capacity.step_metrics import OUTCOMES, StepMetrics, percentile_of
from under_siege.formatting import capitalized, listed, significant
from under_siege.judge.goal import Goal
from under_siege.record.result import Result, SkippedServer
from under_siege.show.case_names import in_brief, in_plain_words, in_words, name_of, varying, with_capital
from under_siege.show.columns import with_first_text
from under_siege.show.notes import cores
from under_siege.show.stream_notes import text_note
from under_siege.show.view import Cell, Column, CsvValue, Figure, Medium, Paragraph, Row, Table, Tone, View, finite

NOTED_LATE_S = 0.002  # the conclusion names a delay of the load generator that is longer than this
NOTED_BY_OTHERS = 0.1  # the conclusion names other programs if they used more than this share of all CPUs
MOST_CHARTS = 6  # maximum number of charts, one for each task
T = TypeVar("T")
NONE = TO = "–"  # noqa: RUF001 (an en dash, as in a table)


class NamedCapacity(NamedTuple):
    """A capacity, and names that distinguish its server from the other servers."""

    capacity: Capacity
    name: str  # such as 4_async_processexecutor
    plain: str  # such as process pool
    brief: str  # such as process pool (4)

    @property
    def at_start(self) -> str:
        """Return the brief name for the start of a sentence."""
        return with_capital(self.brief, self.capacity.case.server)


def view(result: Result) -> View:
    """Return all that `bench.py capacity` shows."""
    several, machine = named(capacities_of(result)), result.environment
    return View(
        "Capacity",
        [Paragraph(sentence) for sentence in conclusion(several, result.left_out)],
        [_table(several), _table_of_steps(several)],
        footnotes=_footnotes(result, several),
        figures=list(figures(several)),
        data={
            "schema": result.schema,
            "command": result.command,
            "began_at": result.began_at,
            "environment": result.environment,
            "cases": [_as_data(each.capacity) for each in several],
        },
        csv=_as_csv(several),
        facts=[
            ("command", shlex.join(result.command)),
            ("CPU", f"{machine.cpu_model}, {machine.available_cpus:g} of {machine.cpus} CPUs"),
            ("system", machine.system),
            *((f"Python {version}", build) for version, build in machine.pythons.items()),
        ],
        made_at=result.began_at.replace("T", " ").replace("+00:00", " UTC"),
        exit_code=exit_code(result),
    )


def named(capacities: Sequence[Capacity]) -> list[NamedCapacity]:
    """Return each capacity with distinctive names for its server."""
    cases = [capacity.case for capacity in capacities]
    axes = [name for name in varying(cases) if name in ("task", "path")]
    several = []
    for capacity in capacities:
        server = capacity.case.server
        title = capacity.title
        suffix = in_words(capacity.case, axes)
        name = name_of(capacity.case, cases) + (f" ({suffix})" if suffix else "")
        plain_name = in_plain_words(server, title) + name.removeprefix(server)
        several.append(NamedCapacity(capacity, name, plain_name, in_brief(name, server, title)))
    return several


def conclusion(several: Sequence[NamedCapacity], left_out: Sequence[SkippedServer] = ()) -> Iterator[str]:
    """Yield sentences about the best server, about problems of individual servers, and about the measurement."""
    best, others = _best(several)
    if best:
        of_ceiling = best.capacity.of_ceiling
        share = f", {formatting.share(of_ceiling)} of the ceiling" if of_ceiling else ""
        goals = " and ".join(dict.fromkeys(goal.text for goal in best.capacity.goals))
        compared = _not_different([other.brief for other in others])
        yield f"With {goals}, {best.brief} {_interval(best.capacity)}{share}{compared}."
    for each in several:
        yield from (f"{each.at_start}{remark}." for remark in _remarks(each.capacity))
    steps = [step for each in several for step in each.capacity.steps]
    late_s = max((step.late_s for step in steps), default=0.0)
    if late_s > NOTED_LATE_S:
        yield (
            f"The load generator was up to {formatting.seconds(late_s)} late (p99 of a step). "
            "Latency includes this delay, because it is measured from when a request was due."
        )
    most = max((step.by_others for step in steps), default=0.0)
    if most > NOTED_BY_OTHERS:
        yield f"Other programs used up to {formatting.share(most)} of the CPUs during a step: use a quieter machine."
    if wide := [each.brief for each in several if each.capacity.verdict == UNDECIDED and each.capacity.lower_per_s]:
        yield f"The confidence interval is wide for {listed(wide)}: search longer (--time) or on a quieter machine."
    for skipped in left_out:
        yield f"Not tested: {in_brief(skipped.server, skipped.server, skipped.title)}: {skipped.reason}."


def _best(several: Sequence[NamedCapacity]) -> tuple[NamedCapacity | None, list[NamedCapacity]]:
    """Return the highest capacity (None if there is none) and all others whose intervals overlap with its interval."""
    able = [each for each in several if each.capacity.lower_per_s]
    able.sort(key=lambda each: each.capacity.per_s or each.capacity.lower_per_s or 0.0, reverse=True)
    least = able[0].capacity.lower_per_s or 0.0 if able else 0.0
    return next(iter(able), None), [each for each in able[1:] if (each.capacity.upper_per_s or math.inf) >= least]


def _not_different(names: Sequence[str]) -> str:
    return f"; not significantly different: {listed(names)}" if names else ""


def _interval(capacity: Capacity) -> str:
    """Return a phrase such as `sustains 15.2 requests/s (95 % CI 14.1–16.3)`."""  # noqa: RUF002
    lower, upper = capacity.lower_per_s, capacity.upper_per_s
    if capacity.per_s is None or lower is None or upper is None:
        return f"sustains at least {significant(lower or 0.0)} requests/s"
    return f"sustains {significant(capacity.per_s)} requests/s (95 % CI {significant(lower)}{TO}{significant(upper)})"


def _remarks(capacity: Capacity) -> Iterator[str]:
    """Yield remarks about a server, each of which continues a sentence that begins with the server's name."""
    if capacity.verdict == FAILED:
        yield f": search failed: {capacity.failure}"
        return
    if capacity.is_none:
        first = capacity.steps[0]
        values = [f"{_metric(goal)}: {_goal_value(first, goal)}" for goal in first.missed]
        yield f": no rate meets the goals; even at {per_s(first.per_s)}, {' and '.join(values)}"
    elif capacity.lower_per_s is None:
        yield f" misses a goal at {per_s(capacity.upper_per_s)}, and no lower rate was offered"
    elif capacity.upper_per_s is None:
        yield f" meets every goal at every offered rate, up to {per_s(capacity.steps[-1].per_s)}"
    for name in ("limited", "wrong"):
        if step := next((step for step in capacity.steps if step.shares[name]), None):
            yield f": {_share(step.shares[name])} of the requests were {OUTCOMES[name]} at {per_s(step.per_s)}"
    if capacity.limited:
        yield (
            f": at {per_s(capacity.limited.per_s)}, the load generator was the limit and sent requests "
            f"{formatting.seconds(capacity.limited.late_s)} late (p99). This step and higher rates are ignored"
        )


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
    return OUTCOMES[max(OUTCOMES, key=lambda name: step.shares[name]) if kind != "ping" else "lost"]


def _share(share: float) -> str:
    return f"{significant(100 * share, 2)} %"


def _metric(goal: Goal) -> str:
    return goal.text.partition(goal.operator)[0].strip()


def _goal_value(step: StepMetrics, goal: Goal) -> str:
    kind, percent = percentile_of(goal)
    value = step.value(goal)
    if kind or value is None:
        return _time_of(step, kind, percent)
    formats = {"availability_pct": formatting.percent, "memory_bytes": formatting.megabytes}
    return formats.get(goal.figure, formatting.seconds)(value)


def _first_missed(capacity: Capacity) -> str:
    """Describe the goal that is missed first, such as `p99: 1.4 s at 20.3/s`."""
    step, goal = capacity.first_missed, capacity.breaks
    return f"{_metric(goal)}: {_goal_value(step, goal)} at {per_s(step.per_s)}" if step and goal else "none"


def _sustained(capacity: Capacity) -> str:
    if capacity.per_s:
        return per_s(capacity.per_s)
    return "none" if capacity.is_none else NONE


_COLUMNS: dict[str, Callable[[Capacity], str]] = {
    "sustained": _sustained,
    "lower": lambda capacity: per_s(capacity.lower_per_s),
    "upper": lambda capacity: per_s(capacity.upper_per_s),
    "of ceiling": lambda capacity: formatting.share(capacity.of_ceiling) if capacity.of_ceiling else NONE,
    "p99": lambda capacity: _time_of(capacity.nearest_step, "response"),
    "first event p99": lambda capacity: _time_of(capacity.nearest_step, "first_event"),
    "gap p99": lambda capacity: _time_of(capacity.nearest_step, "gap"),
    "ping p99": lambda capacity: _time_of(capacity.nearest_step, "ping"),
    "first goal missed": _first_missed,
    "CPU per response": lambda capacity: _of_nearest(capacity, "cpu_s", formatting.seconds),
    "memory": lambda capacity: _of_nearest(capacity, "memory_bytes", formatting.megabytes),
}


def _of_nearest(capacity: Capacity, metric: str, text: Callable[[float], str]) -> str:
    value = getattr(capacity.nearest_step, metric, None)
    return text(value) if value else NONE


_STEP_COLUMNS: dict[str, Callable[[StepMetrics], str]] = {
    "offered": lambda step: per_s(step.per_s),
    "p99": lambda step: _time_of(step, "response"),
    "first event p99": lambda step: _time_of(step, "first_event"),
    "gap p99": lambda step: _time_of(step, "gap"),
    "ping p99": lambda step: _time_of(step, "ping"),
    "goodput": lambda step: per_s(step.good_per_s),
    "missed": lambda step: ", ".join(_shares_missed(step)) or NONE,
}


def _shares_missed(step: StepMetrics) -> Iterator[str]:
    for name, share in step.shares.items():
        if share:
            yield f"{_share(share)} {OUTCOMES.get(name, name)}"


def _table(several: Sequence[NamedCapacity]) -> Table:
    """Return a row for each server."""
    columns = _used(_COLUMNS, several)
    failed = ["failed", *[""] * (len(columns) - 1)]
    rows = [
        Row(_cells(each.name, failed if each.capacity.failure else [text(each.capacity) for text in columns.values()]))
        for each in several
    ]
    return Table("capacity", "Sustained rates", _columns(columns), rows, gap=2)


def _used(columns: Mapping[str, T], several: Sequence[NamedCapacity]) -> dict[str, T]:
    """Return the columns without those of streams if the responses are no streams, and without their whole length."""
    records = [step.record for each in several for step in each.capacity.steps]
    unused = ("p99",) if any(record.stream for record in records) else ("first event p99", "gap p99")
    return {with_first_text(name, records): column for name, column in columns.items() if name not in unused}


def _table_of_steps(several: Sequence[NamedCapacity]) -> Table:
    """Return a row for each step, marked if it missed a goal."""
    columns = _used(_STEP_COLUMNS, several)
    rows = [
        Row(_cells("" if index else each.name, [text(step) for text in columns.values()]), tone)
        for each in several
        for index, step in enumerate(each.capacity.steps)
        for tone in [Tone.BAD if step.missed else Tone.PLAIN]
    ]
    return Table("steps", "Steps", _columns(columns), rows, gap=2, media=(Medium.TERMINAL,))


def _columns(names: Iterable[str]) -> list[Column]:
    return [Column("server", is_text=True), *map(Column, names)]


def _cells(name: str, texts: Sequence[str]) -> list[Cell]:
    return [Cell(name), *map(Cell, texts)]


def _footnotes(result: Result, several: Sequence[NamedCapacity]) -> list[str]:
    count = sum(len(each.capacity.steps) for each in several)
    places = dict.fromkeys(tuple(step.record.text_events) for each in several for step in each.capacity.steps)
    return [
        *(text_note(each) for each in places if each),
        "sustained: highest rate that meets all goals · lower, upper: its 95 % interval",
        "p99, ping p99, CPU, memory: of the step that met all goals and is nearest to the lower bound",
        "latency counts from when a request was due; it is infinite if the request was refused, lost or answered "
        "wrongly",
        f"Poisson arrivals · {cores(result)} · Python {', '.join(result.environment.pythons)} · "
        f"{formatting.counted(count, 'step')} · seed {result.seed}",
    ]


def figures(several: Sequence[NamedCapacity]) -> Iterator[Figure]:
    """Yield a chart for each task."""
    groups: dict[object, list[NamedCapacity]] = {}
    for each in several:
        if each.capacity.steps:
            groups.setdefault(each.capacity.case.job, []).append(each)
    for group in list(groups.values())[:MOST_CHARTS]:
        case = group[0].capacity.case
        job = in_words(case, [name for name, _ in case.job])
        servers = [(each.capacity, each.brief) for each in group]
        yield Figure(
            "capacity",
            job if len(groups) > 1 else "",
            "Each point is one step with Poisson arrivals at one rate. The knee is where a line bends upwards; the "
            "dashed lines are the goals. The bottom chart shows the goodput: how many responses per second arrived in "
            "time.",
            partial(capacity_chart, servers),
            "Latency by arrival rate. " + " ".join(map(_in_one_sentence, group)),
            headline=_headline(group),
            conditions=job,
            on_slide=partial(latency_chart, servers),
            section="Latency and goodput by rate",
        )


def _headline(several: Sequence[NamedCapacity]) -> str:
    best, others = _best(several)
    if best is None:
        return "No server meets all goals at any offered rate"
    return f"{capitalized(best.plain)} {_interval(best.capacity)}{_not_different([other.plain for other in others])}"


def _in_one_sentence(each: NamedCapacity) -> str:
    remarks = [f" {_interval(each.capacity)}"] if each.capacity.lower_per_s else _remarks(each.capacity)
    return "".join([each.at_start, *remarks, "."])


_FIGURES: dict[str, Callable[[StepMetrics], float | None]] = {
    "offered_per_s": lambda step: step.per_s,
    "p50_s": lambda step: finite(step.percentile_s("response", 50)),
    "p99_s": lambda step: finite(step.percentile_s("response", 99)),
    "ping_p50_s": lambda step: finite(step.percentile_s("ping", 50)),
    "ping_p99_s": lambda step: finite(step.percentile_s("ping", 99)),
    "good_per_s": lambda step: step.good_per_s,
    "cpu_s_per_transaction": lambda step: step.cpu_s,
    "memory_bytes": lambda step: step.memory_bytes,
}


def _as_csv(several: Sequence[NamedCapacity]) -> tuple[list[str], list[list[CsvValue]]]:
    """Return the headings, and a line for each step of each server."""
    rows: list[list[CsvValue]] = [
        [each.name, *(figure(step) for figure in _FIGURES.values()), "; ".join(_texts(step.missed))]
        for each in several
        for step in each.capacity.steps
    ]
    return ["server", *_FIGURES, "missed"], rows


def _texts(goals: Sequence[Goal]) -> list[str]:
    return [goal.text for goal in goals]


def _as_data(capacity: Capacity) -> dict[str, Any]:
    """Return the JSON object of a server and task. Don't rename the keys, because programs read them."""
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
        "response_s": {"p99": finite(nearest.percentile_s("response", 99)) if nearest else None},
        "ping_s": {"p99": finite(nearest.percentile_s("ping", 99)) if nearest else None},
        "cpu_s_per_transaction": nearest.cpu_s if nearest else None,
        "memory_bytes": nearest.memory_bytes if nearest else None,
        "steps": [
            {
                **{name: figure(step) for name, figure in _FIGURES.items()},
                "requests": len(step.waits_s),
                "shares": step.shares,
                "missed": _texts(step.missed),
            }
            for step in capacity.steps
        ],
    }
